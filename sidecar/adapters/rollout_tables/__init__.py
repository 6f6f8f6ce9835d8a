"""The tables of rollouts, which SQLite and PostgreSQL have alike: each statement is written once, for both."""

from sidecar.adapters.rollout_tables.store import AuditReads, TabledRollouts

__all__ = ["AuditReads", "TabledRollouts"]
