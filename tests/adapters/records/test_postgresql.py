"""The journal in PostgreSQL keeps every rule, and those that only come up where several processes write."""

import asyncio
from collections.abc import Iterator

import pytest

from sidecar.adapters.postgresql import Limits, upgrade
from sidecar.adapters.record_postgresql import SCHEMA
from tests.adapters.records.bench import RecordBench
from tests.adapters.records.postgresql_bench import PostgresBench, emptied
from tests.adapters.records.suite import SharedDatabaseSuite
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """A database with the schema, for one test after the other."""
    name = postgres.new_database()
    asyncio.run(upgrade(postgres.dsn(name), SCHEMA, Limits()))
    yield postgres.dsn(name)
    postgres.sql(f"drop database {name} with (force)")


@pytest.fixture
def dsn(database: str) -> str:
    """The same with nothing in it."""
    asyncio.run(emptied(database))
    return database


class TestPostgres(SharedDatabaseSuite):
    """The journal in PostgreSQL keeps every rule."""

    @pytest.fixture
    def bench(self, dsn: str) -> RecordBench:
        """An empty record."""
        return PostgresBench(dsn)
