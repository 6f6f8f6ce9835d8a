"""The record through the PgBouncer that Debian has, in transaction mode: the next statement may run elsewhere."""

import asyncio

import pytest

from scripts.benchmark.scale.pooler import POOL, pooler, program
from sidecar.adapters.postgresql import ConnectionTimeouts, behind_transaction_pooler
from sidecar.adapters.postgresql.connections import connected
from sidecar.adapters.record_postgresql import JournalOptions, open_postgres_journal
from sidecar.core.identifiers import InstanceId, TurnId
from tests.adapters.records.bench import OpenedRecord
from tests.support.postgres import PostgresServer
from tests.support.record_builders import a_whole_turn

TRIES = 5
TURNS = 20
ARRAYS = """
select distinct format_type(type.oid, null) from pg_proc made
  cross join unnest(made.proargtypes::oid[] || made.prorettype) given join pg_type type on type.oid = given
where type.typcategory = 'A' and made.pronamespace = current_schema()::regnamespace order by 1
"""
"""Of what the schema's functions take and return."""


async def test_a_pooler_without_other_work_is_found_out(postgres: PostgresServer, postgres_dsn: str) -> None:
    """It hands out the connection used last, on which a notification to oneself does arrive. Directly nothing is found.

    Tried one after the other and all at once, as sidecars start.
    """
    _needs_pgbouncer()
    async with pooler(postgres.folder) as between:
        pooled = between.dsn(_database(postgres_dsn))
        one_by_one = [await behind_transaction_pooler(pooled, ConnectionTimeouts()) for _ in range(TRIES)]
        at_once = await asyncio.gather(*(behind_transaction_pooler(pooled, ConnectionTimeouts()) for _ in range(TRIES)))
        directly = await asyncio.gather(
            *(behind_transaction_pooler(postgres_dsn, ConnectionTimeouts()) for _ in range(TRIES))
        )

    assert one_by_one + at_once == [True] * 2 * TRIES
    assert directly == [False] * TRIES


async def test_two_sidecars_append_through_a_pooler(postgres: PostgresServer, postgres_dsn: str) -> None:
    """Whole turns, at the same time, with reads between them: no statement meets a connection that does not know it."""
    _needs_pgbouncer()
    told: list[str] = []
    options = JournalOptions(anomaly=lambda kind, _detail: told.append(kind))
    async with pooler(postgres.folder) as between:
        dsn = between.dsn(_database(postgres_dsn))
        journals = [await open_postgres_journal(dsn, InstanceId(name), options) for name in ("one", "two")]
        records = [OpenedRecord(journal) for journal in journals]
        try:

            async def append(number: int) -> None:
                for turn in range(TURNS):
                    turn_id = TurnId(f"turn-{number}-{turn}")
                    await records[number].append(a_whole_turn(turn_id))
                    assert await records[1 - number].turn(turn_id)

            await asyncio.gather(append(0), append(1))
        finally:
            await asyncio.gather(*(journal.close() for journal in journals))

    assert told == ["transaction_pooler"] * 2
    assert len(records) < POOL


async def test_a_connection_of_a_pooler_knows_every_array_before_it_is_used(dsn: str) -> None:
    """Else the driver would ask for types where `jit` may be on: that took five seconds, the limit of a statement."""
    connection = await connected(dsn, ConnectionTimeouts(pooled=True))
    try:
        arrays = [name for (name,) in await connection.fetch(ARRAYS)]
        asked: list[str] = []
        connection.add_query_logger(lambda made: asked.append(made.query))
        given = [f"select null::{name}" for name in arrays]
        for statement in given:
            await connection.fetchval(statement)
        await asyncio.sleep(0)  # the driver tells of a query in the next pass
    finally:
        connection.terminate()

    assert {"boolean[]", "jsonb[]", "bytea[]"} <= set(arrays)
    assert asked == given


def _database(dsn: str) -> str:
    return dsn.partition("@/")[2].partition("?")[0]


def _needs_pgbouncer() -> None:
    if program() is None:
        pytest.skip("missing tool: pgbouncer (Debian package pgbouncer)")
