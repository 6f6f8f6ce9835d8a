"""PostgreSQL: connections that every wait on has an end, hints about changes, and the steps of a schema."""

from sidecar.adapters.postgresql.asking import Asking
from sidecar.adapters.postgresql.changes import Changes
from sidecar.adapters.postgresql.connections import Connection, Connections, Limits
from sidecar.adapters.postgresql.failures import ConnectionLost, unavailable
from sidecar.adapters.postgresql.opening import behind_transaction_pooler, pending_migrations, shown, upgrade

__all__ = [
    "Asking",
    "Changes",
    "Connection",
    "ConnectionLost",
    "Connections",
    "Limits",
    "behind_transaction_pooler",
    "pending_migrations",
    "shown",
    "unavailable",
    "upgrade",
]
