"""PostgreSQL: connections with limited waits, notifications of changes, and schema migrations."""

from sidecar.adapters.postgresql.changes import Changes
from sidecar.adapters.postgresql.connections import Connection, Connections, ConnectionTimeouts
from sidecar.adapters.postgresql.failures import ConnectionLost, unavailable
from sidecar.adapters.postgresql.opening import (
    behind_transaction_pooler,
    pending_migrations,
    redacted_dsn,
    upgrade,
    upgrade_tables,
)
from sidecar.adapters.postgresql.statements import StatementExecutor

__all__ = [
    "Changes",
    "Connection",
    "ConnectionLost",
    "ConnectionTimeouts",
    "Connections",
    "StatementExecutor",
    "behind_transaction_pooler",
    "pending_migrations",
    "redacted_dsn",
    "unavailable",
    "upgrade",
    "upgrade_tables",
]
