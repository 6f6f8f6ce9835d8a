"""Lists over a journal that several sidecars append to: each takes its own facts, one of them those of the dead."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from sidecar.composition.record.projection import rebuild_projection
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import Principal
from sidecar.core.journal.markers import removal_of
from sidecar.core.listing.changes import Watermarks
from sidecar.operations.record.erase_user import EraseUser
from sidecar.settings import read_settings
from tests.adapters.records.bench import OpenedRecord
from tests.adapters.records.postgresql_bench import PostgresBench, connection_to, two_instances
from tests.support.record_builders import a_dispatch, a_taking, a_whole_turn, an_end, moment
from tests.support.second_place import PlaceInMemory, SettableClock, a_signer
from tests.support.signed_files import CountedIds

DAY: Final = 24 * 60 * 60.0


async def listed(record: OpenedRecord) -> list[str]:
    """Return the turns of a list, newest first."""
    found = await record.turns(TurnQuery())
    assert found.as_of is None
    return [row.turn_id for row in found.rows]


async def projected(dsn: str) -> list[str]:
    """Return the turns that have rows."""
    async with connection_to(dsn) as connection:
        return [row[0] for row in await connection.fetch("select turn_id from listed_turns order by turn_id")]


async def test_each_sidecar_projects_its_own_facts_only(dsn: str) -> None:
    """Lists show those of the others all the same, from the tail."""
    async with two_instances(dsn) as (first, second):
        await first.append(a_whole_turn("of first"))
        await second.append(a_whole_turn("of second", at=1))
        await first.projector.catch_up()
        assert await projected(dsn) == ["of first"]
        assert await listed(first) == await listed(second) == ["of second", "of first"]
        await second.projector.catch_up()
        assert await projected(dsn) == ["of first", "of second"]
        assert (first.projector.projected, second.projector.projected) == (3, 3)


async def test_what_a_dead_sidecar_left_is_taken_by_one(dsn: str) -> None:
    """By the first that looks; the other one leaves it to that."""
    async with PostgresBench(dsn) as bench:
        dead = await bench.open("dead")
        await dead.append(a_whole_turn("left"))
        await bench.kill(dead.journal)
        first, second = await bench.open("one"), await bench.open("two")
        await first.projector.step()
        await second.projector.step()
        assert await projected(dsn) == ["left"]
        assert (first.projector.projected, second.projector.projected) == (3, 0)


async def test_a_projector_that_was_taken_for_dead_keeps_nothing(dsn: str) -> None:
    """Another sidecar has taken its facts; it is refused until it has them back."""
    async with two_instances(dsn) as (first, second):
        await first.append(a_whole_turn("a"))
        projection = first.projector.projection
        assert await projection.mine() == ("one",)
        async with connection_to(dsn) as connection:
            await connection.execute("update lists_watermarks set projector = 'two' where instance_id = 'one'")
        with pytest.raises(StoreUnavailable, match="another sidecar keeps these rows"):
            await first.projector.step()
        assert await projected(dsn) == []
        await first.projector.catch_up()  # it asks for its lease again
        assert await projected(dsn) == ["a"]
        assert await listed(second) == ["a"]


async def test_watermarks_are_those_of_the_living_however_many_starts_there_were(dsn: str) -> None:
    """Of instances that have been dead for an hour with all projected none is leased, read or handed over."""
    async with PostgresBench(dsn) as bench:
        for number in range(8):
            each = await bench.open(f"start {number}")
            await each.append(a_whole_turn(f"t{number}", at=number))
            await each.projector.catch_up()
        await _die_two_hours_ago(dsn)
        now = await bench.open("now")
        await now.append(a_whole_turn("new", at=50))
        await now.projector.catch_up()

        projection = now.projector.projection
        assert await projection.mine() == ("now",)
        assert list((await projection.watermarks()).reached) == ["now"]
        assert len(await listed(now)) == 9

        await each.append(a_whole_turn("late", at=60))  # it was paused, not dead
        assert "late" in await listed(now)
        again = await bench.open("again")
        await again.projector.catch_up()
        assert "late" in await projected(dsn)
        assert await listed(again) == await listed(now)


async def test_instances_that_have_nothing_on_record_are_forgotten(dsn: str) -> None:
    """After an hour: those that never appended, and those whose facts retention has removed."""
    async with PostgresBench(dsn) as bench:
        for name in ("idle", "removed", "kept"):
            each = await bench.open(name)
            if name != "idle":
                await each.append(a_whole_turn(name, at=0 if name == "removed" else DAY))
                await each.projector.catch_up()
        before = moment(DAY / 2)
        roots = await each.journal.removable(before)
        assert await each.journal.remove([removal_of(root, before, before, a_signer()) for root in roots]) == 1
        await bench.open("lives")
        async with connection_to(dsn) as connection:
            assert await connection.fetchval("select count(*) from instance_heads") == 4
            await _die_two_hours_ago(dsn)
            await bench.open("next")
            for table in ("instances", "instance_heads"):
                rows = await connection.fetch(f"select instance_id from {table} order by 1")
                assert [row[0] for row in rows] == ["kept", "next"]
            assert await connection.fetchval("select count(*) from lists_watermarks") == 1


async def _die_two_hours_ago(dsn: str) -> None:
    async with connection_to(dsn) as connection:
        await connection.execute("update instances set lease_until = now() - interval '2 hours'")
        await connection.execute("update lists_watermarks set leased_until = '-infinity'")


async def test_a_pass_that_began_before_everything_was_forgotten_keeps_nothing(dsn: str) -> None:
    """Else what it had projected before would be missing for good."""
    async with two_instances(dsn) as (first, second):
        await first.append(a_whole_turn("a"))
        await first.projector.catch_up()
        await first.append(a_whole_turn("b", at=1))
        projection = first.projector.projection
        before = await first.journal.changed(await projection.watermarks(), 99, await projection.mine())
        await second.projector.rebuild()
        with pytest.raises(StoreUnavailable):
            await projection.apply((), before.reached)
        await first.projector.catch_up()
        assert await projected(dsn) == ["a", "b"]


async def test_rows_of_sidecars_that_serve_and_of_others_are_made_again(dsn: str, tmp_path: Path) -> None:
    """By the command and by the sidecar that serves, each its part; the command ends when nothing is left."""
    file = tmp_path / "sidecar.toml"
    file.write_text('[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n[record]\ndatabase = "postgresql"\n')
    settings = read_settings(file, {"SIDECAR__RECORD__POSTGRESQL__DSN": dsn})
    async with PostgresBench(dsn) as bench:
        gone, serving = await bench.open("gone"), await bench.open("serving")
        await gone.append(a_whole_turn("a"))
        await serving.append(a_whole_turn("b", at=1))
        for record in (gone, serving):
            await record.projector.catch_up()
        await bench.kill(gone.journal)
        async with connection_to(dsn) as connection:
            await connection.execute("update listed_turns set principal = 'wrong'")
            await connection.execute("update lists_watermarks set leased_until = '-infinity'")
        rebuilding = asyncio.ensure_future(asyncio.to_thread(rebuild_projection, settings, lambda taken, left: None))
        while not rebuilding.done():
            await serving.projector.catch_up()
            await asyncio.wait([rebuilding], timeout=0.05)  # another process does its part meanwhile
        assert await rebuilding == 6
        assert {row.principal for row in (await serving.turns(TurnQuery())).rows} == {"user-1"}
        assert await projected(dsn) == ["a", "b"]


async def test_a_turn_that_two_sidecars_appended_to_is_shown_as_it_is(dsn: str) -> None:
    """Taken over and ended by another one: whoever of them projects first, and last."""
    for turn, in_order in (("a", True), ("b", False)):
        async with two_instances(dsn) as (first, second):
            opened = a_dispatch(turn)
            await first.append([opened])
            await second.append([a_taking(opened)])
            await second.append(an_end([opened], turn=turn, at=60))
            for record in (first, second) if in_order else (second, first):
                await record.projector.catch_up()
                (row,) = [row for row in (await second.turns(TurnQuery())).rows if row.turn_id == turn]
                assert row.ended_at is not None
            async with connection_to(dsn) as connection:
                assert await connection.fetchval("select version from listed_turns where turn_id = $1", turn) == 3


async def test_two_sidecars_that_keep_rows_of_one_episode_leave_it_as_it_was_used_last(dsn: str) -> None:
    """At the same time, in passes of one turn each."""
    async with two_instances(dsn) as (first, second):
        for number in range(10):
            await (first, second)[number % 2].append(a_whole_turn(f"t{number}", at=number))
        await _at_once(first, second)
        assert (await first.turns(TurnQuery())).as_of is None
        (episode,) = (await first.episodes(9)).rows
        assert (episode.turns, episode.last_at) == (10, moment(9))


async def test_facts_that_retention_removed_before_they_were_projected_keep_nobody_waiting(dsn: str) -> None:
    """The last ones of a sidecar: it has a higher number than there are facts."""
    async with two_instances(dsn) as (first, second):
        await first.append(a_whole_turn("long ago"))
        await second.append(a_whole_turn("a", at=DAY))
        await second.append(a_whole_turn("b", at=DAY + 1))
        before = moment(DAY / 2)
        roots = await first.journal.removable(before)
        assert await first.journal.remove([removal_of(root, before, before, a_signer()) for root in roots]) == 1
        await first.projector.rebuild()
        for record in (first, second):
            assert sum([1 async for _ in _steps(record)]) <= 2
        assert await listed(first) == await listed(second) == ["b", "a"]
        for limit in (1, 3, 6):
            changes = await first.journal.changed(Watermarks(), limit)
            assert changes.behind == max(6 - limit, 0)


async def _steps(record: OpenedRecord) -> AsyncIterator[None]:
    """Project step by step; five are more than enough."""
    for _ in range(5):
        yield
        if not await record.projector.step():
            return


async def test_nothing_of_a_user_who_was_erased_is_left_in_lists(dsn: str) -> None:
    """The operation itself, over two sidecars: the one that is asked, and one that lists."""
    async with two_instances(dsn) as (first, second):
        for record, turn in ((first, "a"), (second, "b")):
            await record.append(a_whole_turn(turn, principal="ada"))
            await record.projector.catch_up()
        place, clock = PlaceInMemory(), SettableClock()
        erase = EraseUser(
            first.journal, first.instance, first.projector, _Conversations(), a_signer(), place, clock, CountedIds()
        )
        *_, told = [told async for told in erase(Principal("ada"), preview=False)]
        assert (told.done, told.turns, told.facts) == (True, 2, 6)
        async with connection_to(dsn) as connection:
            assert await connection.fetchval("select count(*) from listed_turns where principal <> ''") == 0
            assert await connection.fetchval("select count(*) from listed_episodes where principal <> ''") == 0
        assert {row.principal for row in (await second.turns(TurnQuery())).rows} == {""}


class _Conversations:
    async def erase(self, principal: Principal) -> int:
        """There are none."""
        return 0


async def _at_once(*records: OpenedRecord) -> None:
    await asyncio.gather(*(record.projector.catch_up() for record in records))
