"""What is read back: lists, and what retention and verifying go through."""

from datetime import UTC, date, datetime, timedelta

import pytest

from sidecar.core.errors import RecordConflict
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import ChildId, EpisodeId, TurnId
from sidecar.core.journal.appends import RootState
from sidecar.core.journal.markers import FactsRemoved
from tests.adapters.records.bench import OpenedRecord, RecordBench
from tests.support.record_builders import (
    BEGIN,
    a_dispatch,
    a_whole_turn,
    an_end,
    moment,
)

EPISODE = EpisodeId("episode-1")
DAY = timedelta(days=1).total_seconds()


def a_marker(root: RootState) -> FactsRemoved:
    """Return the marker that covers a root."""
    return FactsRemoved(root.instance, root.day, root.number, root.root, moment(50), moment(60), "key", "signature")


class ReadingRules:
    """Subclass it with a fixture `bench`."""

    async def test_what_is_not_there_is_not_there(self, bench: RecordBench) -> None:
        """Every read of an empty record."""
        async with bench:
            record = await bench.open("one")
            turn = TurnId("x")
            assert await record.turn(turn) is None
            assert await record.routing_record(turn) is None
            assert list(await record.child_events(turn, ChildId("x"))) == []
            assert list(await record.attempts(turn)) == []
            assert await record.last_dispatching_turn(EpisodeId("x")) == ()
            assert list(await record.left_behind(10)) == []
            assert list(await record.overdue_turns(moment(0), 10)) == []
            assert (await record.turns(TurnQuery())).rows == ()
            assert (await record.episodes(10)).rows == ()
            assert list(await record.open_turns(10)) == []
            assert list(await record.journal.roots()) == []
            assert list(await record.journal.markers()) == []
            assert [each async for each in record.journal.turn_ids()] == []

    async def test_the_last_turn_that_called_any_is_known(self, bench: RecordBench) -> None:
        """The newest of the episode, without those that called no sub-agent."""
        async with bench:
            record = await bench.open("one")
            await record.append(a_whole_turn("a", ("shop", "rewards", "shop"), 1))
            await record.append(an_end(turn="b", at=5))
            assert await record.last_dispatching_turn(EPISODE) == ("shop", "rewards")
            await record.append(a_whole_turn("c", ("support",), 6))
            await record.append(a_whole_turn("a", ("shop", "rewards", "shop"), 1))
            assert await record.last_dispatching_turn(EPISODE) == ("support",)
            assert await record.last_dispatching_turn(EpisodeId("another")) == ()
            routing = await record.routing_record(TurnId("c"))
            assert routing == a_whole_turn("c", ("support",), 6)[-1]

    async def test_all_facts_can_be_gone_through(self, bench: RecordBench) -> None:
        """More than one page of them, in the order of the journal, and all turns."""
        async with bench:
            record = await bench.open("one")
            turns = [f"turn-{number:03}" for number in range(600)]
            for turn in turns:
                await record.append(an_end(turn=turn))
            (root,) = await record.journal.roots()
            assert [fact.turn_id async for fact in record.journal.facts_of_day(root.day)] == turns
            assert sorted([each async for each in record.journal.turn_ids()]) == turns


class RetentionRules:
    """What retention removes. Subclass it with a fixture `bench`."""

    async def test_a_day_can_be_removed_when_all_of_its_turns_are_old_enough(self, bench: RecordBench) -> None:
        """Each of them has ended, before a time; a turn of the day that goes on keeps the whole day."""
        async with bench:
            record = await _two_days(bench)
            assert list(await record.journal.removable(moment(2))) == []
            (root,) = await record.journal.removable(moment(50))
            assert (root.instance, root.day) == ("one", BEGIN.date())
            assert len(await record.journal.removable(moment(2 * DAY))) == 2

            await record.append([a_dispatch("open", at=1)])
            assert [each.day for each in await record.journal.removable(moment(2 * DAY))] == [_after(BEGIN)]

    async def test_a_turn_is_of_the_day_of_its_first_fact(self, bench: RecordBench) -> None:
        """One that goes on after midnight stays whole."""
        async with bench:
            record = await bench.open("one")
            midnight = (datetime(2026, 3, 2, tzinfo=UTC) - BEGIN).total_seconds()
            await record.append(a_whole_turn("late", at=midnight - 1))
            opened = a_dispatch("later", at=midnight - 1)
            await record.append([opened])
            await record.append([a_dispatch("later", "dispatch-2", at=midnight + 1, first_step=1)])
            assert [root.day for root in await record.journal.roots()] == [BEGIN.date()]

    async def test_what_a_marker_covers_is_gone(self, bench: RecordBench) -> None:
        """Turns with facts and frames, and the root of the day; nothing else."""
        async with bench:
            record = await _two_days(bench)
            kept = await record.turn(TurnId("c"))
            (root,) = await record.journal.removable(moment(50))

            assert await record.journal.remove([a_marker(root)]) == 2

            assert await record.turn(TurnId("a")) is None
            assert list(await record.attempts(TurnId("b"))) == []
            assert [each async for each in record.journal.turn_ids()] == ["c"]
            assert [fact async for fact in record.journal.facts_of_day(root.day)] == []
            assert await record.turn(TurnId("c")) == kept
            assert list(await record.journal.markers()) == [a_marker(root)]
            assert [each.day for each in await record.journal.roots()] == [_after(BEGIN)]
            assert list(await record.journal.removable(moment(50))) == []
            assert [row.turn_id for row in (await record.turns(TurnQuery())).rows] == ["c"]

    async def test_the_journal_goes_on_after_a_removal(self, bench: RecordBench) -> None:
        """Also after everything was removed, and by the next process: places in it are never given twice."""
        async with bench:
            record = await _two_days(bench)
            before = [fact.link async for fact in record.journal.facts_of_day(_after(BEGIN))]
            roots = await record.journal.removable(moment(2 * DAY))
            assert await record.journal.remove([a_marker(root) for root in roots]) == 3
            await record.append(a_whole_turn("d", at=3 * DAY))
            await bench.kill(record.journal)
            second = await bench.open("two")
            await second.append(a_whole_turn("e", at=3 * DAY))
            assert [(root.instance, root.number > 0) for root in await second.journal.roots()] == [
                ("one", True),
                ("two", True),
            ]
            turn = await second.turn(TurnId("d"))
            assert turn is not None
            assert turn.ended is not None
            assert before

    @pytest.mark.parametrize("wrong", [{"number": 2}, {"root": "0" * 64}, {"instance": "unknown"}], ids=str)
    async def test_a_marker_that_does_not_fit_removes_nothing(
        self, bench: RecordBench, wrong: dict[str, object]
    ) -> None:
        """Another number, another root, an instance that is not known."""
        async with bench:
            record = await _two_days(bench)
            (root,) = await record.journal.removable(moment(50))
            given = {"instance": root.instance, "day": root.day, "number": root.number, "root": root.root} | wrong
            marker = a_marker(RootState(**given))  # type: ignore[arg-type]  # the table is of mixed types
            with pytest.raises(RecordConflict):
                await record.journal.remove([marker])
            assert len([each async for each in record.journal.turn_ids()]) == 3
            assert list(await record.journal.markers()) == []

    async def test_a_day_goes_with_the_markers_of_all_instances_only(self, bench: RecordBench) -> None:
        """One that leaves out an instance removes nothing."""
        async with bench:
            first = await _two_days(bench)
            await bench.kill(first.journal)
            second = await bench.open("two")
            await second.append(a_whole_turn("z"))
            markers = [a_marker(root) for root in await second.journal.removable(moment(50))]
            assert [marker.instance for marker in markers] == ["one", "two"]
            for some in ([markers[0]], [markers[1]]):
                with pytest.raises(RecordConflict):
                    await second.journal.remove(some)
            assert await second.journal.remove(markers) == 3

    async def test_frames_go_before_the_rest(self, bench: RecordBench) -> None:
        """Of turns that ended before; of turns that ended later, or not yet, they stay."""
        async with bench:
            record = await _two_days(bench)
            assert await record.journal.remove_frames(moment(50)) == 3
            assert await record.journal.remove_frames(moment(50)) == 0
            assert list(await record.attempts(TurnId("a"))) == []
            assert len(await record.attempts(TurnId("c"))) == 1
            assert await record.turn(TurnId("a")) is not None


async def _two_days(bench: RecordBench) -> OpenedRecord:
    """Return a record with turn `a` of two children and `b` of one, and `c` of one on the next day."""
    record = await bench.open("one")
    await record.append(a_whole_turn("a", ("shop", "rewards"), 0))
    await record.append(a_whole_turn("b", at=5))
    await record.append(a_whole_turn("c", at=DAY))
    return record


def _after(time: datetime) -> date:
    return time.date() + timedelta(days=1)
