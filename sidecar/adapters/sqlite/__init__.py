"""SQLite files through `apsw`: one writer thread, one reader thread, one that checkpoints. For adapters that keep rows.

What an adapter hands over runs in one of the threads, in a transaction of its own; it never sees the event loop.
"""

from sidecar.adapters.sqlite.engine import SqliteEngine, Tuning
from sidecar.adapters.sqlite.opening import Schema, pending_migrations, upgrade

__all__ = ["Schema", "SqliteEngine", "Tuning", "pending_migrations", "upgrade"]
