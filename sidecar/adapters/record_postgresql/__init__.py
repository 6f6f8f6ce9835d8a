"""The journal in PostgreSQL: several sidecars append to it, with one statement per commit."""

from sidecar.adapters.record_postgresql.journal import JournalOptions, PostgresJournal
from sidecar.adapters.record_postgresql.opening import SCHEMA, open_postgres_journal
from sidecar.adapters.record_postgresql.projection import PostgresProjection

__all__ = ["SCHEMA", "JournalOptions", "PostgresJournal", "PostgresProjection", "open_postgres_journal"]
