"""A store in memory: for demos, tests and single processes that may forget everything when they stop."""

from sidecar.adapters.store_memory.store import MemoryStore

__all__ = ["MemoryStore"]
