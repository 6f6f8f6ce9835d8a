"""Rules of ownership where several processes append to one record at the same time."""

import asyncio
import os
from functools import partial

import pytest

from sidecar.core.dispatching.questions import AnsweredBy
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.facts import QuestionAnswered, ScoreRecorded
from sidecar.core.journal.texts import Texts
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.operations.record.journal_store import JournalStore
from tests.adapters.records.bench import OpenedRecord, RecordBench, Tasks, refuses
from tests.support.journal_drafts import D1, a_question, moment
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_settling,
    a_taking,
    a_whole_turn,
    an_end,
)

TURN = TurnId("turn-1")
OPENED = a_dispatch(slots=("shop", "shop"))
CHILD = a_child(OPENED)
OF_DISPATCH = (a_child(OPENED, 1), a_life(CHILD)[2], a_settling(OPENED))


class OwningRules:
    """Subclass it with a fixture `bench`."""

    @pytest.mark.parametrize("record", OF_DISPATCH, ids=lambda record: type(record).__name__)
    async def test_only_the_owner_goes_on(self, bench: RecordBench, record: Record) -> None:
        """Another instance is refused whatever it appends; after taking the dispatch, its owner before is."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            await refuses(second, record)
            await second.append([a_taking(OPENED)])
            await refuses(first, record)
            await second.append([record])

    @pytest.mark.parametrize("record", OF_DISPATCH, ids=lambda record: type(record).__name__)
    async def test_any_process_may_append_again_what_is_there(self, bench: RecordBench, record: Record) -> None:
        """The owner before, and one that never was."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            await first.append([record])
            await second.append([OPENED, CHILD, record])
            await second.append([a_taking(OPENED)])
            await first.append([OPENED, CHILD, record])

    @pytest.mark.parametrize("over", [False, True])
    async def test_of_two_that_answer_a_question_at_the_same_time_one_is_refused(
        self, bench: RecordBench, over: bool
    ) -> None:
        """Whether the turn that asked has ended or not; the answer that stands is the same for all."""
        async with bench:
            first, second = [
                JournalStore(await bench.journal(each), Tasks(), MeasuringRecorder(Metrics()), partial(os.urandom, 16))
                for each in ("one", "two")
            ]
            for body, texts in a_question(over=over):
                await first.append([first.draft(TURN, moment(), body, texts)])
            answers = [QuestionAnswered(D1, 0, TurnId(name), D1, 0) for name in ("turn-2", "turn-3")]
            told = await asyncio.gather(
                first.append([first.draft(TURN, moment(1), answers[0], Texts())]),
                second.append([second.draft(TURN, moment(1), answers[1], Texts())]),
                return_exceptions=True,
            )
            found = [await each.turn(TURN) for each in (first, second)]

        assert sorted(type(each).__name__ for each in told) == ["NoneType", "RecordConflict"]
        winner = ("turn-2", "turn-3")[told.index(None)]
        assert [each.children[0].answered_by for each in found if each] == [AnsweredBy(TurnId(winner), D1, 0)] * 2

    @pytest.mark.parametrize("over", [False, True])
    async def test_of_two_scores_with_one_id_one_is_refused(self, bench: RecordBench, over: bool) -> None:
        """Any instance may record a score, also after the end of the turn; the score that is on record is the same."""
        async with bench:
            first, second = [
                JournalStore(await bench.journal(each), Tasks(), MeasuringRecorder(Metrics()), partial(os.urandom, 16))
                for each in ("one", "two")
            ]
            for body, texts in a_question(over=over):
                await first.append([first.draft(TURN, moment(), body, texts)])
            scores = [ScoreRecorded(D1, 0, "score-1", "helpful", value, 1) for value in (0.0, 1.0)]
            why = Texts(values=(("because",),))
            told = await asyncio.gather(
                first.append([first.draft(TURN, moment(1), scores[0], why)]),
                second.append([second.draft(TURN, moment(1), scores[1], why)]),
                return_exceptions=True,
            )
            found = [await each.turn(TURN) for each in (first, second)]

        assert sorted(type(each).__name__ for each in told) == ["NoneType", "RecordConflict"]
        seen = [(score.value, score.explanation) for each in found if each for score in each.scores]
        assert seen == [((0.0, 1.0)[told.index(None)], "because")] * 2

    async def test_a_refused_taking_leaves_the_owner(self, bench: RecordBench) -> None:
        """A group that takes a dispatch and then contradicts the record."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            await refuses(second, a_taking(OPENED), a_life(CHILD)[3])
            await first.append([a_life(CHILD)[2]])

    @pytest.mark.parametrize("epoch", [0, 2])
    async def test_only_the_next_epoch_is_taken(self, bench: RecordBench, epoch: int) -> None:
        """Neither the one there is, nor one further on."""
        async with bench:
            _, second = await _opened_by_the_first(bench)
            await refuses(second, a_taking(OPENED, epoch))

    async def test_of_two_that_take_one_epoch_one_is_refused(self, bench: RecordBench) -> None:
        """Even if they say the same to the microsecond: only one may believe that it is the owner."""
        async with bench:
            _, second = await _opened_by_the_first(bench)
            third = await bench.open("three")
            await second.append([a_taking(OPENED)])
            await refuses(third, a_taking(OPENED))
            await refuses(third, a_taking(OPENED, at=51))
            await third.append([a_taking(OPENED, 2, at=51)])
            await refuses(second, a_life(CHILD)[2])

    async def test_taking_again_with_the_same_epoch_changes_nothing(self, bench: RecordBench) -> None:
        """Its answer was lost; also after another process has taken it since, whose it stays."""
        async with bench:
            _, second = await _opened_by_the_first(bench)
            third = await bench.open("three")
            await second.append([a_taking(OPENED)])
            await second.append([a_taking(OPENED)])
            await third.append([a_taking(OPENED, 2)])
            await second.append([a_taking(OPENED)])
            turn = await third.turn(TURN)
            assert turn is not None
            assert (turn.dispatches[0].owner, turn.dispatches[0].epoch) == ("three", 2)

    async def test_the_end_of_a_turn_needs_no_owner(self, bench: RecordBench) -> None:
        """Once its children are closed, any process may append it; then it is the same for all."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            before: list[Record] = [OPENED, CHILD, *a_life(CHILD), a_settling(OPENED)]
            await first.append(before)
            await second.append(an_end(before))
            await first.append(an_end(before))
            await refuses(first, *an_end(before, narration="Another."))

    async def test_a_process_that_lags_behind_reads_before_it_refuses(self, bench: RecordBench) -> None:
        """Turns and dispatches that another process has opened meanwhile, in a turn that this one has in memory."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            other = a_dispatch(dispatch="dispatch-2", first_step=2)
            await second.append([other])
            await first.append([a_life(CHILD)[2]])
            await second.append([a_child(other, 2)])
            await first.append([a_life(CHILD)[3], a_settling(OPENED)])
            turn = await second.turn(TURN)
            assert turn is not None
            assert [child.opened.step_idx for child in turn.children] == [0, 2]
            assert [dispatch.owner for dispatch in turn.dispatches] == ["one", "two"]

    async def test_the_owner_is_told_with_its_dispatch(self, bench: RecordBench) -> None:
        """Alive for itself; not alive once its process is dead."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            own = await first.turn(TURN)
            assert own is not None
            assert (own.dispatches[0].owner, own.dispatches[0].epoch, own.dispatches[0].owner_alive) == ("one", 0, True)
            await bench.kill(first.journal)
            seen = await second.turn(TURN)
            assert seen is not None
            assert (seen.dispatches[0].owner, seen.dispatches[0].owner_alive) == ("one", False)

    async def test_a_process_that_is_dead_for_others_is_alive_for_itself(self, bench: RecordBench) -> None:
        """It was only stopped for longer than its lease: it leaves nothing behind that it would have to settle."""
        async with bench:
            first, _ = await _opened_by_the_first(bench)
            await bench.kill(first.journal)
            own = await first.turn(TURN)
            assert own is not None
            assert (own.dispatches[0].owner, own.dispatches[0].owner_alive) == ("one", True)
            assert list(await first.left_behind(10)) == []

    async def test_what_another_living_process_works_on_is_not_left_behind(self, bench: RecordBench) -> None:
        """Not before it is dead."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            await first.append(a_whole_turn("turn-2"))
            assert list(await second.left_behind(10)) == []
            await bench.kill(first.journal)
            assert list(await second.left_behind(10)) == [("turn-1", "dispatch-1")]


async def _opened_by_the_first(bench: RecordBench) -> tuple[OpenedRecord, OpenedRecord]:
    """Return two instances; the first one has opened a dispatch with a child."""
    first, second = await bench.open("one"), await bench.open("two")
    await first.append([OPENED, CHILD, *a_life(CHILD)[:2]])
    return first, second
