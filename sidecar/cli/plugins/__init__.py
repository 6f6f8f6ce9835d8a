"""`sidecar plugins`: lists, examines and scaffolds plugins."""

from typing import Final

SECONDS: Final = 30.0
"""That `plugins doctor` gives each plugin: on a busy machine, some libraries take more than ten to import."""
