"""Rollouts in PostgreSQL keep every rule, and those that only come up where several processes write."""

import asyncio
from collections.abc import Iterator
from types import TracebackType

import pytest

from sidecar.adapters.postgresql import ConnectionTimeouts, upgrade
from sidecar.adapters.record_postgresql import SCHEMA
from sidecar.adapters.rollout_postgresql import PostgresRollouts
from sidecar.core.identifiers import InstanceId
from tests.adapters.records.postgresql_bench import connection_to
from tests.adapters.rollouts.bench import RolloutBench, WholeStore
from tests.adapters.rollouts.suite import RolloutSuite
from tests.support.postgres import PostgresServer

TABLES = (
    *("rollouts", "rollout_audit", "rollout_transitions", "rollout_unexported", "rollout_answers", "kept_definitions"),
    *("rollout_flags", "rollout_replicas", "rollout_audit_markers"),
)
EMPTIED = "; ".join(f"delete from {table}" for table in TABLES)


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """A database with the schema, for one test after the other."""
    name = postgres.new_database()
    asyncio.run(upgrade(postgres.dsn(name), SCHEMA, ConnectionTimeouts()))
    yield postgres.dsn(name)
    postgres.sql(f"drop database {name} with (force)")


@pytest.fixture
def dsn(database: str) -> str:
    """The same with nothing in it: emptied as only a superuser can."""
    asyncio.run(_emptied(database))
    return database


async def _emptied(dsn: str) -> None:
    async with connection_to(dsn) as connection:
        begun = "update rollout_version set version = 0, last_number = 0, last_link = ''"
        await connection.execute(f"set session_replication_role = replica; {EMPTIED}; {begun}")


class PostgresBench(RolloutBench):
    """Instances with connections of their own."""

    def __init__(self, dsn: str, limits: ConnectionTimeouts | None = None) -> None:
        """Keep the address."""
        super().__init__()
        self.dsn = dsn
        self._limits = limits or ConnectionTimeouts()
        self._opened: list[PostgresRollouts] = []
        self._listening: list[asyncio.Task[None]] = []

    async def open(self, instance: str) -> WholeStore:
        """Return one more instance."""
        store = PostgresRollouts(self.dsn, InstanceId(instance), self._limits)
        self._opened.append(store)
        return store

    async def listen(self, store: WholeStore) -> None:
        """Listen until the end."""
        assert isinstance(store, PostgresRollouts)
        self._listening.append(asyncio.create_task(store.listen()))

    async def silence(self, instance: str, seconds: float) -> None:
        """Let it be heard last so long before, by the clock of the database."""
        async with connection_to(self.dsn) as connection:
            moved = "update rollout_replicas set heard_at = heard_at - make_interval(secs => $2) where instance_id = $1"
            await connection.execute(moved, instance, seconds)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close every instance."""
        for listening in self._listening:
            listening.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)
        for store in self._opened:
            await store.close()


class TestPostgres(RolloutSuite):
    """Rollouts in PostgreSQL keep every rule."""

    @pytest.fixture
    def bench(self, dsn: str) -> RolloutBench:
        """An empty database."""
        return PostgresBench(dsn)
