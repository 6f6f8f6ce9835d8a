"""The record in PostgreSQL keeps every rule, and those that only come up where several processes write."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from sidecar.adapters.migrations import DatabaseProblem
from sidecar.adapters.postgresql import Limits, pending_migrations, upgrade
from sidecar.adapters.record_postgresql import SCHEMA, PostgresRecord, RecordOptions, open_postgres_record
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.records import DispatchTaken
from sidecar.core.identifiers import ChildId, InstanceId, TurnId
from sidecar.operations.record.ports import Database
from tests.adapters.records.bench import RecordBench
from tests.adapters.records.suite import DatabaseSuite
from tests.support.postgres import PostgresServer
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_log,
    a_taking,
    a_turn_end,
    a_whole_turn,
    an_attempt,
    moment,
)
from tests.support.requirement import requirement

TABLES = (
    *("dispatches", "dispatch_owners", "sub_agents", "sub_agent_events", "attempts", "call_outcomes", "turn_ends"),
    *("routing_records", "closed_children", "retention_markers"),
)


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """A database with the schema, for one test after the other."""
    name = postgres.new_database()
    asyncio.run(upgrade(postgres.dsn(name), SCHEMA, Limits()))
    yield postgres.dsn(name)
    postgres.sql(f"drop database {name} with (force)")


@pytest.fixture
def dsn(database: str) -> str:
    """The same with nothing in it: emptied as only a superuser can, which is quicker than another one."""
    asyncio.run(_emptied(database))
    return database


async def _emptied(dsn: str) -> None:
    async with connection_to(dsn) as connection:
        deleted = "; ".join(f"delete from {table}" for table in (*TABLES, "turns", "instances", "instance_heads"))
        await connection.execute(f"set session_replication_role = replica; {deleted}")


class PostgresBench(RecordBench):
    """Instances with connections of their own."""

    def __init__(self, dsn: str) -> None:
        """Keep the address."""
        self._dsn = dsn
        self._opened: list[PostgresRecord] = []

    async def open(self, instance: str) -> Database:
        """Return one more instance, with a lease for the whole test."""
        record = PostgresRecord(self._dsn, InstanceId(instance), RecordOptions(lease=timedelta(hours=1), reads=2))
        self._opened.append(record)
        await record.renew_lease()
        return record

    async def kill(self, database: Database) -> None:
        """Let its lease run out."""
        async with connection_to(self._dsn) as connection:
            await connection.execute(
                "update instances set lease_until = clock_timestamp() - interval '1 ms' where instance_id = $1",
                database.instance,
            )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close every instance."""
        for record in self._opened:
            await record.close()


class TestPostgres(DatabaseSuite):
    """The record in PostgreSQL keeps every rule."""

    @pytest.fixture
    def bench(self, dsn: str) -> RecordBench:
        """An empty record."""
        return PostgresBench(dsn)


@asynccontextmanager
async def connection_to(dsn: str) -> AsyncIterator[Any]:
    """Give a bare connection."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def two_instances(dsn: str) -> AsyncIterator[tuple[PostgresRecord, PostgresRecord]]:
    """Give two instances of one record."""
    first = await open_postgres_record(dsn, InstanceId("one"))
    second = await open_postgres_record(dsn, InstanceId("two"))
    try:
        yield first, second
    finally:
        await first.close()
        await second.close()


async def taken(record: PostgresRecord, taking: DispatchTaken) -> bool:
    """Try to take a dispatch; say whether it is ours now."""
    try:
        await record.commit([taking])
    except RecordConflict:
        return False
    return True


async def test_of_two_that_race_for_a_dispatch_exactly_one_wins(dsn: str) -> None:
    """Twenty dispatches, and two that see them left behind at the same moment; each asks with a time of its own."""
    async with two_instances(dsn) as (first, second):
        opened = [a_dispatch(f"turn-{number}") for number in range(20)]
        await first.commit(opened)
        for each in opened:
            won = await asyncio.gather(taken(first, a_taking(each)), taken(second, a_taking(each, at=51)))
            assert sorted(won) == [False, True]
            turn = await first.turn(each.turn_id)
            assert turn is not None
            assert turn.dispatches[0].owner == (first.instance if won[0] else second.instance)


async def test_two_that_write_the_same_turns_in_opposite_order_both_go_on(dsn: str) -> None:
    """Rows are locked in one order whatever the order of the group, so that neither waits for the other for ever."""
    async with two_instances(dsn) as (first, second):
        turns = [f"turn-{number}" for number in range(40)]
        for number in range(10):
            one = [a_dispatch(turn, f"first-{number}") for turn in turns]
            other = [a_dispatch(turn, f"second-{number}") for turn in reversed(turns)]
            await asyncio.gather(first.commit(one), second.commit(other))
        kept = await first.turn(TurnId("turn-7"))
        assert kept is not None
        assert len(kept.dispatches) == 20


@requirement("SX-38")
async def test_a_reader_never_misses_an_event_of_two_interleaved_writers(dsn: str) -> None:
    """It follows two children by sequence; whatever it has seen is a prefix of what is there in the end."""
    async with two_instances(dsn) as (first, second):
        children = [a_child(a_dispatch("turn-1")), a_child(a_dispatch("turn-2"))]
        written = asyncio.Event()

        async def write(record: PostgresRecord, number: int) -> None:
            child, log = children[number], a_log(children[number])
            await record.commit(
                [a_dispatch(child.turn_id), child, log.created(moment(1), "digest"), log.started(moment(2))]
            )
            for count in range(30):
                await record.commit([log.noted(moment(3 + count), "agent.delegated", f"number {count}")])

        async def follow(reader: PostgresRecord, child_id: ChildId) -> list[int]:
            seen: list[int] = []
            while len(seen) < 32:
                finished = written.is_set()
                found = [event.sequence for event in await reader.child_events(child_id)]
                assert found[: len(seen)] == seen
                seen = found
                assert not finished or len(seen) == 32
            return seen

        async def write_both() -> None:
            await asyncio.gather(write(first, 0), write(second, 1))
            written.set()

        follows = [follow(second, children[0].child_id), follow(first, children[1].child_id)]
        _, *seen = await asyncio.gather(write_both(), *follows)
        assert seen == [list(range(1, 33))] * 2


@requirement("SX-38", "SX-12")
@pytest.mark.parametrize("table", TABLES)
async def test_nothing_on_record_is_changed_or_removed(dsn: str, table: str) -> None:
    """Not even by the owner of the tables, and not where the table is empty."""
    async with connection_to(dsn) as connection:
        column = await connection.fetchval(
            "select column_name from information_schema.columns where table_name = $1 limit 1", table
        )
        for statement in (f"update {table} set {column} = {column}", f"delete from {table}", f"truncate {table}"):
            with pytest.raises(asyncpg.PostgresError, match="append-only"):
                await connection.execute(statement)


async def test_what_an_append_waited_for_counts(dsn: str) -> None:
    """An event waits while another instance takes the dispatch; then it is not its owner's any more."""
    async with two_instances(dsn) as (first, second), connection_to(dsn) as outside:
        child = a_child(a_dispatch())
        life = a_life(child)
        await first.commit([a_dispatch(), child])
        async with outside.transaction():
            await outside.execute("select record_append('two', '{turn-1}', '{owners}', array[$1])", _taking())
            appending = asyncio.ensure_future(first.commit(life[:1]))
            await _somebody_waits(outside)
            assert not appending.done()
        with pytest.raises(RecordConflict):
            await appending
        await second.commit(life[:1])


async def test_a_child_cannot_slip_in_while_its_turn_ends(dsn: str) -> None:
    """The end is on its way, and not committed: the child waits, and comes too late."""
    async with two_instances(dsn) as (first, second), connection_to(dsn) as outside:
        await first.commit([a_dispatch()])
        async with outside.transaction():
            await outside.execute("select from turns where turn_id = 'turn-1' for update")
            ending = asyncio.ensure_future(second.commit([a_turn_end()]))
            await _somebody_waits(outside)
        await ending
        with pytest.raises(RecordConflict):
            await first.commit([a_child(a_dispatch())])


async def test_a_lease_that_ran_out_is_noticed_by_its_holder(dsn: str) -> None:
    """It is alive again with the next renewal, and knows that it was taken for dead."""
    told: list[str] = []
    options = RecordOptions(anomaly=lambda kind, _detail: told.append(kind))
    record = await open_postgres_record(dsn, InstanceId("one"), options)
    other = await open_postgres_record(dsn, InstanceId("two"))
    try:
        await record.commit([a_dispatch()])
        await record.renew_lease()
        assert (record.lapses, list(await other.left_behind(9))) == (0, [])
        async with connection_to(dsn) as connection:
            await connection.execute("update instances set lease_until = now() - interval '1 s'")
        assert list(await other.left_behind(9)) == [("turn-1", "dispatch-1")]
        await record.renew_lease()
        assert (record.lapses, told, list(await other.left_behind(9))) == (1, ["lease_lapsed"], [])
    finally:
        await record.close()
        await other.close()


async def test_whoever_ends_gives_its_lease_back(dsn: str) -> None:
    """What it left behind is there for the others at once, and not when the lease would have run out in an hour."""
    record = await open_postgres_record(dsn, InstanceId("one"), RecordOptions(lease=timedelta(hours=1)))
    other = await open_postgres_record(dsn, InstanceId("two"))
    try:
        await record.commit([a_dispatch()])
        assert list(await other.left_behind(9)) == []
        await record.close()
        assert list(await other.left_behind(9)) == [("turn-1", "dispatch-1")]
        await record.close()  # without connections: it ends all the same
    finally:
        await other.close()


async def test_a_text_may_hold_what_postgresql_cannot(dsn: str) -> None:
    """U+0000 in everything that is free text, beside what it is written as, and a backslash before it."""
    record = await open_postgres_record(dsn, InstanceId("one"))
    try:
        strange = "a\0b\\\0c\\u0000d\ue000\ue002e"
        opened = a_dispatch(principal=strange, request_json='{"a":"\\u0000"}')
        child = a_child(opened)
        log = a_log(child)
        events = [log.created(moment(1), strange), log.failed(moment(2), "runner", strange)]
        events.append(log.closed(moment(3), strange))
        end = a_turn_end(principal=strange, narration=strange)
        await record.commit([opened, child, *events, an_attempt(child), end])
        await record.commit([opened, child, *events, an_attempt(child), end])
        turn = await record.turn(opened.turn_id)
        assert turn is not None
        assert (turn.dispatches[0].opened, turn.children[0].events, turn.ended) == (opened, tuple(events), end)
    finally:
        await record.close()


async def test_a_commit_of_another_sidecar_is_noticed(dsn: str) -> None:
    """By the notification, long before the next look; also when the notification is all there is to hear."""
    async with two_instances(dsn) as (first, second):
        changed, noticed = asyncio.Event(), asyncio.Event()
        listening = [asyncio.ensure_future(each.listen()) for each in (first, second)]
        with first.subscribed(changed.set), second.subscribed(noticed.set):
            for event in (changed, noticed):
                await event.wait()
                event.clear()
            await first.commit(a_whole_turn())
            await noticed.wait()
            await changed.wait()
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)


async def test_the_schema_is_made_once_by_whoever_comes_first(postgres_dsn: str) -> None:
    """Three start on an empty database; what was still to be done can be seen before, and not after."""
    limits = Limits()
    assert await pending_migrations(postgres_dsn, SCHEMA, limits) == SCHEMA
    done = await asyncio.gather(*(upgrade(postgres_dsn, SCHEMA, limits) for _ in range(3)))
    assert sorted(done, key=len) == [(), (), SCHEMA]
    assert await pending_migrations(postgres_dsn, SCHEMA, limits) == ()


async def test_a_schema_made_step_by_step_is_the_same(postgres: PostgresServer, postgres_dsn: str, dsn: str) -> None:
    """One step each start, as by a line of older sidecars, or all at once."""
    for known in range(1, len(SCHEMA) + 1):
        await upgrade(postgres_dsn, SCHEMA[:known], Limits())
    assert await _described(postgres_dsn) == await _described(dsn)


async def test_a_database_of_a_newer_or_another_sidecar_is_refused(dsn: str) -> None:
    """It says which, and what to do."""
    with pytest.raises(DatabaseProblem, match="newer sidecar"):
        await upgrade(dsn, SCHEMA[:-1], Limits())
    with pytest.raises(DatabaseProblem, match="another version"):
        await upgrade(dsn, (*SCHEMA[:-1], replace(SCHEMA[-1], sql="select 1")), Limits())


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


async def _somebody_waits(connection: Any) -> None:
    """Return as soon as a session of the server waits for a row."""
    while not await connection.fetchval("select count(*) from pg_locks where not granted"):
        pass


def _taking() -> str:
    return '[{"turn_id": "turn-1", "dispatch_id": "dispatch-1", "epoch": 1, "taken_at": "2026-03-01Z"}]'
