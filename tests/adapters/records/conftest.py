"""A database with the journal's schema, for the tests of PostgreSQL."""

import asyncio
from collections.abc import Iterator

import pytest

from sidecar.adapters.postgresql import ConnectionTimeouts, upgrade
from sidecar.adapters.record_postgresql import SCHEMA
from tests.adapters.records.postgresql_bench import emptied
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """One for a module, for one test after the other."""
    name = postgres.new_database()
    asyncio.run(upgrade(postgres.dsn(name), SCHEMA, ConnectionTimeouts()))
    yield postgres.dsn(name)
    postgres.sql(f"drop database {name} with (force)")


@pytest.fixture
def dsn(database: str) -> str:
    """The same with nothing in it."""
    asyncio.run(emptied(database))
    return database
