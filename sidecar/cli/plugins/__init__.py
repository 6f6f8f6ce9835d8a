"""`sidecar plugins`: lists, examines and scaffolds plugins."""

from typing import Final

SECONDS: Final = 10.0
"""That `plugins doctor` gives each plugin."""
