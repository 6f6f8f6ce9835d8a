"""Kills and ramp-downs as one process knows them: in a file of its own, or in memory."""

from sidecar.adapters.tombstones.file import TombstonesInFile, TombstonesUnusable, opened_tombstones
from sidecar.adapters.tombstones.memory import TombstonesInMemory

__all__ = ["TombstonesInFile", "TombstonesInMemory", "TombstonesUnusable", "opened_tombstones"]
