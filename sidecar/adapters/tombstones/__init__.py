"""Kills and ramp-downs of one process: in a file, or in memory."""

from sidecar.adapters.tombstones.file import TombstonesInFile, TombstonesUnusable, opened_tombstones
from sidecar.adapters.tombstones.memory import TombstonesInMemory

__all__ = ["TombstonesInFile", "TombstonesInMemory", "TombstonesUnusable", "opened_tombstones"]
