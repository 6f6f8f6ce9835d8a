"""Conversations in a PostgreSQL database, which several sidecars share. Needs `dispatch-sidecar[postgresql]`."""

from sidecar.adapters.memory_postgresql.memory import PostgresMemory

__all__ = ["PostgresMemory"]
