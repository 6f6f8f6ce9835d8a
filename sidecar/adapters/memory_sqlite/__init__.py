"""Conversations in a separate SQLite file."""

from sidecar.adapters.memory_sqlite.memory import SqliteMemory

__all__ = ["SqliteMemory"]
