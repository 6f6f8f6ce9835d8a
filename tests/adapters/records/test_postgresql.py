"""The journal in PostgreSQL keeps every rule, and those that only come up where several processes write."""

import asyncio
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from sidecar.adapters.migrations import DatabaseProblem
from sidecar.adapters.postgresql import ConnectionTimeouts, pending_migrations, upgrade
from sidecar.adapters.record_postgresql import SCHEMA, JournalOptions, PostgresJournal, open_postgres_journal
from sidecar.adapters.record_postgresql.appending import APPEND
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.records import DispatchTaken, Record
from sidecar.core.identifiers import AttemptId, ChildId, InstanceId, TurnId
from tests.adapters.records.bench import OpenedRecord, RecordBench
from tests.adapters.records.postgresql_bench import (
    TABLES,
    PostgresBench,
    a_session_waits,
    check_journal,
    connection_to,
    two_instances,
)
from tests.adapters.records.suite import SharedDatabaseSuite
from tests.support.journal_drafts import DIGEST
from tests.support.postgres import PostgresServer
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_log,
    a_settling,
    a_taking,
    an_attempt,
    an_end,
    an_outcome,
    moment,
)
from tests.support.requirement import requirement


class TestPostgres(SharedDatabaseSuite):
    """The journal in PostgreSQL keeps every rule."""

    @pytest.fixture
    def bench(self, dsn: str) -> RecordBench:
        """An empty record."""
        return PostgresBench(dsn)


async def taken(record: OpenedRecord, taking: DispatchTaken) -> bool:
    """Try to take a dispatch; say whether it is ours now."""
    try:
        await record.append([taking])
    except RecordConflict:
        return False
    return True


async def test_of_two_that_race_for_a_dispatch_exactly_one_wins(dsn: str) -> None:
    """Twenty dispatches, and two that see them left behind at the same moment; each asks with a time of its own."""
    async with two_instances(dsn) as (first, second):
        for opened in [a_dispatch(f"turn-{number}") for number in range(20)]:
            await first.append([opened])
            won = await asyncio.gather(taken(first, a_taking(opened)), taken(second, a_taking(opened, at=51)))
            assert sorted(won) == [False, True]
            turn = await first.turn(opened.turn_id)
            assert turn is not None
            assert turn.dispatches[0].owner == (first.instance if won[0] else second.instance)
        await check_journal(dsn)


async def test_two_that_write_the_same_turns_both_go_on(dsn: str) -> None:
    """Each loses against the other again and again, looks at the turn, and decides once more."""
    async with two_instances(dsn) as (first, second):
        for number in range(0, 10, 2):
            for turn in (f"turn-{at}" for at in range(10)):
                await asyncio.gather(
                    first.append([a_dispatch(turn, f"first-{number}", first_step=number)]),
                    second.append([a_dispatch(turn, f"second-{number}", first_step=number + 1)]),
                )
        kept = await first.turn(TurnId("turn-7"))
        assert kept is not None
        assert len(kept.dispatches) == 10
        await check_journal(dsn)


@requirement("SX-38")
async def test_a_reader_never_misses_an_event_of_two_interleaved_writers(dsn: str) -> None:
    """It follows two children by sequence; whatever it has seen is a prefix of what is there in the end."""
    async with two_instances(dsn) as (first, second):
        children = [a_child(a_dispatch("turn-1")), a_child(a_dispatch("turn-2"))]
        written = asyncio.Event()

        async def write(record: OpenedRecord, number: int) -> None:
            child, log = children[number], a_log(children[number])
            begun = [log.created(child.opened_at, DIGEST), log.started(child.opened_at)]
            await record.append([a_dispatch(child.turn_id), child, *begun])
            for count in range(1, 31):
                await record.append([log.attempt(moment(3 + count), count, AttemptId(f"{child.child_id}-{count}"))])

        async def follow(reader: OpenedRecord, turn_id: TurnId, child_id: ChildId) -> list[int]:
            seen: list[int] = []
            while len(seen) < 32:
                finished = written.is_set()
                found = [event.sequence for event in await reader.child_events(turn_id, child_id)]
                assert found[: len(seen)] == seen
                seen = found
                assert not finished or len(seen) == 32
            return seen

        async def write_both() -> None:
            await asyncio.gather(write(first, 0), write(second, 1))
            written.set()

        follows = [
            follow(reader, child.turn_id, child.child_id)
            for reader, child in zip((second, first), children, strict=True)
        ]
        _, *seen = await asyncio.gather(write_both(), *follows)
        assert seen == [list(range(1, 33))] * 2


@requirement("SX-38", "SX-12")
@pytest.mark.parametrize("table", [*TABLES, "facts_20260301", "attempt_frames_20260301"])
async def test_nothing_on_record_is_changed_or_removed(dsn: str, table: str) -> None:
    """Not even by the owner of the tables, not in a partition, and not where the table is empty."""
    async with connection_to(dsn) as connection:
        await connection.execute("select journal_partition('2026-03-01')")
        column = await connection.fetchval(
            "select column_name from information_schema.columns where table_name = $1 limit 1", table
        )
        for statement in (f"update {table} set {column} = {column}", f"delete from {table}", f"truncate {table}"):
            with pytest.raises(asyncpg.PostgresError, match="append-only"):
                await connection.execute(statement)


async def test_a_lease_that_ran_out_is_noticed_by_its_holder(dsn: str) -> None:
    """It is alive again with the next renewal, and knows that it was taken for dead."""
    told: list[str] = []
    async with PostgresBench(dsn) as bench:
        options = JournalOptions(anomaly=lambda kind, _detail: told.append(kind))
        journal, other = await open_postgres_journal(dsn, InstanceId("one"), options), await bench.journal("two")
        await OpenedRecord(journal).append([a_dispatch()])
        await journal.renew_lease()
        assert (journal.lapses, list(await other.left_behind(9))) == (0, [])
        await bench.kill(journal)
        assert list(await other.left_behind(9)) == [("turn-1", "dispatch-1")]
        await journal.renew_lease()
        assert (journal.lapses, told, list(await other.left_behind(9))) == (1, ["lease_lapsed"], [])
        await journal.close()


async def test_a_sidecar_that_ends_gives_its_lease_back(dsn: str) -> None:
    """What it left behind is there for the others at once, and not when the lease would have run out in an hour."""
    async with two_instances(dsn) as (record, other):
        await record.append([a_dispatch()])
        assert list(await other.left_behind(9)) == []
        await record.journal.close()
        assert list(await other.left_behind(9)) == [("turn-1", "dispatch-1")]
        await record.journal.close()  # without connections: it ends all the same


async def test_what_an_append_waits_for_holds_up_no_lease(dsn: str) -> None:
    """Its own row among those that append is locked; the lease has another one."""
    async with two_instances(dsn) as (first, _), connection_to(dsn) as outside, outside.transaction():
        await outside.execute("select from instance_heads for update")
        await first.journal.renew_lease()


async def test_a_dispatch_costs_two_statements_and_many_together_hardly_more(dsn: str) -> None:
    """One that is opened and settled alone; then sixteen, all queued while the writer is busy."""
    async with two_instances(dsn) as (record, _), connection_to(dsn) as outside:
        await record.append(an_end(turn="first"))  # the driver asks for types, once a connection
        sent = await _statements_of(record)
        opened, settled = _dispatch("alone")
        await record.append(opened)
        await record.append(settled)
        assert sent == [APPEND] * 2

        sent.clear()
        dispatches = [_dispatch(f"turn-{number}") for number in range(16)]
        async with outside.transaction():
            await outside.execute("select from instance_heads for update")
            first = asyncio.ensure_future(record.append(an_end(turn="busy")))
            await a_session_waits(outside)
            others = [asyncio.ensure_future(record.append(opened)) for opened, _ in dispatches]
            await asyncio.sleep(0)
        await asyncio.gather(first, *others)
        await asyncio.gather(*(record.append(settled) for _, settled in dispatches))
        assert sent == [APPEND] * 3


async def _statements_of(record: OpenedRecord) -> list[str]:
    """Return what the connection that writes sends from now on."""
    sent: list[str] = []
    assert isinstance(record.journal, PostgresJournal)

    async def listen(connection: Any) -> None:
        connection.add_query_logger(lambda said: sent.append(said.query))

    await record.journal._statements.commit(listen)
    return sent


def _dispatch(turn: str) -> tuple[list[Record], list[Record]]:
    """Return the groups in which a dispatch of one child is opened and settled."""
    opened = a_dispatch(turn)
    child = a_child(opened)
    life = a_life(child)
    settled = a_settling(opened, an_outcome(turn))
    return [opened, child, *life[:2]], [*life[2:4], an_attempt(child), settled]


# --- the schema


async def test_the_schema_is_made_once_by_the_first_that_comes(postgres_dsn: str) -> None:
    """Three start on an empty database; what was still to be done can be seen before, and not after."""
    limits = ConnectionTimeouts()
    assert await pending_migrations(postgres_dsn, SCHEMA, limits) == SCHEMA
    done = await asyncio.gather(*(upgrade(postgres_dsn, SCHEMA, limits) for _ in range(3)))
    assert sorted(done, key=len) == [(), (), SCHEMA]
    assert await pending_migrations(postgres_dsn, SCHEMA, limits) == ()


async def test_a_schema_made_step_by_step_is_the_same(postgres: PostgresServer, postgres_dsn: str) -> None:
    """One step each start, as by a line of older sidecars, or all at once."""
    name = postgres.new_database()
    for known in range(1, len(SCHEMA) + 1):
        await upgrade(postgres_dsn, SCHEMA[:known], ConnectionTimeouts())
    await upgrade(postgres.dsn(name), SCHEMA, ConnectionTimeouts())
    assert await _described(postgres_dsn) == await _described(postgres.dsn(name))
    postgres.sql(f"drop database {name} with (force)")


async def test_a_database_of_a_newer_or_another_sidecar_is_refused(dsn: str) -> None:
    """It says which, and what to do."""
    with pytest.raises(DatabaseProblem, match="newer sidecar"):
        await upgrade(dsn, SCHEMA[:-1], ConnectionTimeouts())
    with pytest.raises(DatabaseProblem, match="another version"):
        await upgrade(dsn, (*SCHEMA[:-1], replace(SCHEMA[-1], sql="select 1")), ConnectionTimeouts())


async def _described(dsn: str) -> list[tuple[Any, ...]]:
    """Return every column, index, trigger and function."""
    async with connection_to(dsn) as connection:
        rows = await connection.fetch(
            "select table_name || '.' || column_name, ordinal_position::text, data_type, collation_name, column_default"
            " from information_schema.columns where table_schema = 'public'"
            " union all select indexname, '', indexdef, '', '' from pg_indexes where schemaname = 'public'"
            " union all select tgname, tgrelid::regclass::text, pg_get_triggerdef(oid), '', '' from pg_trigger"
            " union all select oid::regprocedure::text, '', pg_get_functiondef(oid), proacl::text, '' from pg_proc"
            " where pronamespace = 'public'::regnamespace and prokind = 'f' order by 1, 2"
        )
    return [tuple(row) for row in rows]
