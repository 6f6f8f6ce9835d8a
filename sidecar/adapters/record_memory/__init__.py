"""The record in memory: for demos, tests and single processes that may forget everything when they stop."""

from sidecar.adapters.record_memory.contents import RecordInMemory
from sidecar.adapters.record_memory.store import MemoryDatabase, MemoryStore

__all__ = ["MemoryDatabase", "MemoryStore", "RecordInMemory"]
