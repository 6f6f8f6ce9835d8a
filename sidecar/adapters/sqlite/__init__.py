"""SQLite files through `apsw`: a writer thread, a reader thread, and a checkpoint thread.

The functions of an adapter run in one of the threads, each in its own transaction, and never on the event loop.
"""

from sidecar.adapters.sqlite.engine import SqliteEngine, Tuning
from sidecar.adapters.sqlite.opening import Schema, pending_migrations, upgrade

__all__ = ["Schema", "SqliteEngine", "Tuning", "pending_migrations", "upgrade"]
