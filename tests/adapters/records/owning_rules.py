"""Rules of ownership: who may go on with a dispatch."""

import pytest

from sidecar.core.executing.records import Record
from sidecar.core.identifiers import TurnId
from sidecar.operations.record.ports import Database
from tests.adapters.records.bench import RecordBench, refuses
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_settling,
    a_taking,
    a_turn_end,
    a_whole_turn,
    an_attempt,
    an_outcome,
    moment,
)

TURN = TurnId("turn-1")
OPENED = a_dispatch(calls=2)
CHILD = a_child(OPENED)
OF_DISPATCH = (a_child(OPENED, 1), a_life(CHILD)[1], an_attempt(CHILD), a_settling(OPENED))


class OwningRules:
    """Subclass it with a fixture `bench`."""

    @pytest.mark.parametrize("record", OF_DISPATCH, ids=lambda record: type(record).__name__)
    async def test_only_the_owner_goes_on(self, bench: RecordBench, record: Record) -> None:
        """Another instance is refused whatever it appends; after taking the dispatch, its owner before is."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            await refuses(second, record)
            await second.commit([a_taking(OPENED)])
            await refuses(first, record)
            await second.commit([record])

    @pytest.mark.parametrize("record", OF_DISPATCH, ids=lambda record: type(record).__name__)
    async def test_anybody_may_append_again_what_is_there(self, bench: RecordBench, record: Record) -> None:
        """By the owner before, and by one that never was."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            await first.commit([record])
            await second.commit([OPENED, CHILD, record])
            await second.commit([a_taking(OPENED)])
            await first.commit([OPENED, CHILD, record])

    async def test_taking_and_going_on_fit_into_one_group(self, bench: RecordBench) -> None:
        """The ownership holds for what comes behind it."""
        async with bench:
            _, second = await _opened_by_the_first(bench)
            await second.commit([a_taking(OPENED), *a_life(CHILD)[1:], a_settling(OPENED)])
            turn = await second.turn(TURN)
            assert turn is not None
            assert (turn.dispatches[0].owner, turn.dispatches[0].epoch) == ("two", 1)

    async def test_a_refused_taking_leaves_the_owner(self, bench: RecordBench) -> None:
        """A group that takes a dispatch and then contradicts the record."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            await refuses(second, a_taking(OPENED), a_life(CHILD)[3])
            await first.commit([a_life(CHILD)[1]])

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
            await second.commit([a_taking(OPENED)])
            await refuses(third, a_taking(OPENED))
            await refuses(third, a_taking(OPENED, at=51))
            await third.commit([a_taking(OPENED, 2, at=51)])
            await refuses(second, a_life(CHILD)[1])

    async def test_taking_again_with_the_same_epoch_changes_nothing(self, bench: RecordBench) -> None:
        """Its answer was lost; also after somebody else has taken it since, whose it stays."""
        async with bench:
            _, second = await _opened_by_the_first(bench)
            third = await bench.open("three")
            await second.commit([a_taking(OPENED)])
            await second.commit([a_taking(OPENED)])
            await third.commit([a_taking(OPENED, 2)])
            await second.commit([a_taking(OPENED)])
            turn = await third.turn(TURN)
            assert turn is not None
            assert (turn.dispatches[0].owner, turn.dispatches[0].epoch) == ("three", 2)

    async def test_the_end_of_a_turn_needs_no_owner(self, bench: RecordBench) -> None:
        """Whoever appends it; then it is the same for all."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            await first.commit(a_life(CHILD)[1:])
            await second.commit([a_turn_end()])
            await first.commit([a_turn_end()])
            await refuses(first, a_turn_end(narration="Another."))

    async def test_the_owner_is_told_with_its_dispatch(self, bench: RecordBench) -> None:
        """Alive for itself; not alive once its process is dead."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            own = await first.turn(TURN)
            assert own is not None
            assert (own.dispatches[0].owner, own.dispatches[0].epoch, own.dispatches[0].owner_alive) == ("one", 0, True)
            await bench.kill(first)
            seen = await second.turn(TURN)
            assert seen is not None
            assert (seen.dispatches[0].owner, seen.dispatches[0].owner_alive) == ("one", False)

    async def test_who_is_dead_for_others_is_alive_for_itself(self, bench: RecordBench) -> None:
        """It was only stopped for longer than its lease: it leaves nothing behind that it would have to settle."""
        async with bench:
            first, _ = await _opened_by_the_first(bench)
            await bench.kill(first)
            own = await first.turn(TURN)
            assert own is not None
            assert (own.dispatches[0].owner, own.dispatches[0].owner_alive) == ("one", True)
            assert list(await first.left_behind(10)) == []

    async def test_each_instance_has_a_running_root(self, bench: RecordBench) -> None:
        """A close grows the root of whoever appends it, and of nobody else."""
        async with bench:
            first, second = await _opened_by_the_first(bench)
            await first.commit(a_whole_turn("turn-2"))
            await second.commit([a_taking(OPENED), *a_life(CHILD)[1:]])
            await first.commit(a_life(CHILD)[1:])
            states = {state.instance: state.number for state in await first.closed_states()}
            assert states == {"one": 1, "two": 1}
            assert [link.child_id async for link in first.closed_children(second.instance)] == [CHILD.child_id]

    async def test_dispatches_of_the_dead_are_left_behind(self, bench: RecordBench) -> None:
        """Oldest first, as many as asked for; not what has settled, has ended, was taken, or is one's own."""
        async with bench:
            first, second = await bench.open("one"), await bench.open("two")
            for number, turn in enumerate(("d", "c", "b", "a")):
                await first.commit([a_dispatch(turn, at=number)])
            await first.commit([a_settling(a_dispatch("c"))])
            await second.commit([a_dispatch("own"), a_taking(a_dispatch("b"))])
            ended = a_dispatch("ended", calls=2)
            await first.commit([ended, a_settling(ended, an_outcome("call-0")), a_turn_end("ended")])
            await bench.kill(first)

            assert list(await second.left_behind(10)) == [("d", "dispatch-1"), ("a", "dispatch-1")]
            assert list(await second.left_behind(1)) == [("d", "dispatch-1")]

    async def test_turns_nobody_ended_are_overdue(self, bench: RecordBench) -> None:
        """Oldest first, whoever opened them, once any of their dispatches has expired; not those that have ended."""
        async with bench:
            first, second = await bench.open("one"), await bench.open("two")
            await first.commit([a_dispatch("early", turn_expires_at=moment(100))])
            await second.commit([a_dispatch("later", at=1, turn_expires_at=moment(101))])
            await second.commit([a_dispatch("later", "second", at=2, turn_expires_at=moment(105))])
            await first.commit([a_dispatch("over", at=3, turn_expires_at=moment(99)), a_turn_end("over")])
            assert list(await first.overdue_turns(moment(100), 10)) == []
            assert list(await first.overdue_turns(moment(101), 10)) == ["early"]
            assert list(await second.overdue_turns(moment(102), 10)) == ["early", "later"]
            assert list(await second.overdue_turns(moment(102), 1)) == ["early"]


async def _opened_by_the_first(bench: RecordBench) -> tuple[Database, Database]:
    """Return two instances; the first one has opened a dispatch with a child."""
    first, second = await bench.open("one"), await bench.open("two")
    await first.commit([OPENED, CHILD, a_life(CHILD)[0]])
    return first, second
