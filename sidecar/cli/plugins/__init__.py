"""`sidecar plugins`: lists, examines and scaffolds plugins."""

from typing import Final

SECONDS: Final = 30.0
"""The time limit of `plugins doctor` for each plugin: some libraries need over 10 s to import on a busy machine."""
