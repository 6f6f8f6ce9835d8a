"""The record in memory: for demos, tests and single processes whose record may be lost when they stop."""

from sidecar.adapters.record_memory.contents import JournalContents
from sidecar.adapters.record_memory.journal import MemoryJournal
from sidecar.adapters.record_memory.store import MemoryStore

__all__ = ["JournalContents", "MemoryJournal", "MemoryStore"]
