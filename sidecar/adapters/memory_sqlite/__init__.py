"""Conversations in a SQLite file of their own."""

from sidecar.adapters.memory_sqlite.memory import SqliteMemory

__all__ = ["SqliteMemory"]
