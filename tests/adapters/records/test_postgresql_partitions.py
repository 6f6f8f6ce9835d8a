"""Partitions of the journal in PostgreSQL: a turn is whole in one, and making or dropping one holds up no append."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest

from sidecar.adapters.record_postgresql import open_postgres_journal
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.listing.changes import Watermarks
from tests.adapters.records.postgresql_bench import (
    a_session_waits,
    check_journal,
    connection_to,
    decided,
    two_instances,
)
from tests.adapters.records.reading_rules import a_marker
from tests.support.record_builders import BEGIN, a_whole_turn, an_end, moment


async def test_a_turn_is_whole_in_the_partition_of_its_day(dsn: str) -> None:
    """Its frames, too; what is asked about a turn looks at one partition only."""
    async with two_instances(dsn) as (first, _), connection_to(dsn) as connection:
        midnight = (datetime(2026, 3, 2, tzinfo=UTC) - BEGIN).total_seconds()
        await first.append(a_whole_turn("late", at=midnight - 1))
        await first.append(a_whole_turn("early", at=midnight))
        for table in ("facts", "attempt_frames"):
            for day, turn in (("20260301", "late"), ("20260302", "early")):
                found = await connection.fetch(f"select distinct turn_id from {table}_{day}")
                assert [row[0] for row in found] == [turn]


async def test_partitions_are_made_a_day_ahead(postgres_dsn: str) -> None:
    """With the first lease; so no append of the next day has to make any."""
    journal = await open_postgres_journal(postgres_dsn, InstanceId("one"))
    async with connection_to(postgres_dsn) as connection:
        today: date = await connection.fetchval("select (now() at time zone 'UTC')::date")
        for day in (today, today + timedelta(days=1)):
            for table in ("facts", "attempt_frames"):
                assert await connection.fetchval("select to_regclass($1)", f"{table}_{day:%Y%m%d}") is not None
    await journal.close()


async def test_a_new_partition_stops_no_append(dsn: str) -> None:
    """It is made, and not committed: appends to other days go on, and those to its day wait for it."""
    async with two_instances(dsn) as (first, second), connection_to(dsn) as outside:
        await first.append(an_end(turn="before"))
        async with outside.transaction():
            await outside.execute("select journal_partition('2026-03-05')")
            await first.append(an_end(turn="meanwhile"))
            later = asyncio.ensure_future(second.append(an_end(turn="later", at=4 * 86_400)))
            await a_session_waits(outside)
        await later
        await check_journal(dsn)


async def test_removal_gives_way_to_readers_and_stops_nobody_for_long(dsn: str) -> None:
    """A backup reads the day that shall go: nothing is removed, others append; afterwards it goes as a whole."""
    async with two_instances(dsn) as (first, second), connection_to(dsn) as backup:
        await first.append(a_whole_turn("old"))
        markers = [a_marker(root) for root in await first.journal.removable(moment(50))]
        async with backup.transaction():
            await backup.fetch("select from facts")
            removing = asyncio.ensure_future(first.journal.remove(markers))
            await a_session_waits(backup)
            await second.append(a_whole_turn("new", at=86_400))
            with pytest.raises(StoreUnavailable, match="holds a lock"):
                await removing
        assert await first.turn(TurnId("old")) is not None
        assert await first.journal.remove(markers) == 1
        async with connection_to(dsn) as connection:
            assert await connection.fetchval("select to_regclass('facts_20260301')") is None
        await check_journal(dsn)


async def test_an_append_to_a_day_that_goes_away_is_not_lost(dsn: str) -> None:
    """Its partition is gone when it comes: it makes another one."""
    async with two_instances(dsn) as (first, second), connection_to(dsn) as outside:
        await first.append(a_whole_turn("old"))
        markers = [a_marker(root) for root in await first.journal.removable(moment(50))]
        assert await first.journal.remove(markers) == 1
        assert await second.journal.append([decided(second, (), *an_end(turn="another"))]) == [True]
        assert await outside.fetchval("select count(*) from facts_20260301") == 1
        await check_journal(dsn)


async def test_lists_come_to_the_end_of_a_sequence_whose_newest_facts_were_removed(dsn: str) -> None:
    """Nothing is behind, however few facts are read at a time, and what comes next is read."""
    async with two_instances(dsn) as (first, second):
        await first.append(a_whole_turn("kept", at=86_400))
        await first.append(a_whole_turn("old"))
        await second.append(a_whole_turn("another", at=86_400))
        removable = await first.journal.removable(moment(50))
        assert await first.journal.remove([a_marker(root) for root in removable]) == 1
        for limit in (1, 100):
            marks, behind, seen = Watermarks(), 1, set[str]()
            while behind:
                changes = await second.journal.changed(marks, limit)
                seen |= {turn.turn_id for turn in changes.turns}
                marks, behind = changes.reached, changes.behind
            assert seen == {"kept", "another"}
        await first.append(an_end(turn="next", at=86_400))
        assert [turn.turn_id for turn in (await second.journal.changed(marks, 9)).turns] == ["next"]
