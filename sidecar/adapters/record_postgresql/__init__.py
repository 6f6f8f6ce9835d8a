"""The record in PostgreSQL: several sidecars append to one, each in one statement a commit."""

from sidecar.adapters.record_postgresql.opening import SCHEMA, open_postgres_record
from sidecar.adapters.record_postgresql.record import PostgresRecord, RecordOptions

__all__ = ["SCHEMA", "PostgresRecord", "RecordOptions", "open_postgres_record"]
