"""The tables of rollouts that SQLite and PostgreSQL have in common: each statement is written once, for both."""

from sidecar.adapters.rollout_tables.store import AuditReads, TabledRollouts

__all__ = ["AuditReads", "TabledRollouts"]
