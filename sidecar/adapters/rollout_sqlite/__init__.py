"""Rollouts in the SQLite file of the record, written by the record's writer."""

from sidecar.adapters.rollout_sqlite.store import SqliteRollouts

__all__ = ["SqliteRollouts"]
