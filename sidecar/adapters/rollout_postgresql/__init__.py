"""Rollouts in the PostgreSQL database of the record, shared by all replicas."""

from sidecar.adapters.rollout_postgresql.store import PostgresRollouts

__all__ = ["PostgresRollouts"]
