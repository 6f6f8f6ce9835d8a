"""What a process finds that starts on a record which another one has left."""

from sidecar.core.identifiers import InstanceId, TurnId
from tests.adapters.records.bench import RecordBench, refuses, state_of
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_settling,
    a_taking,
    a_whole_turn,
    an_end,
    an_outcome,
    moment,
    the_claims,
)

TURN = TurnId("turn-1")


class RestartRules:
    """Subclass it with a fixture `bench`."""

    async def test_what_was_appended_before_may_be_appended_again(self, bench: RecordBench) -> None:
        """By the next process, which has to read the turn first: nothing changes."""
        async with bench:
            first = await bench.open("one")
            records = a_whole_turn()
            await first.append(records)
            await bench.kill(first.journal)
            second = await bench.open("two")
            before = await state_of(second, TURN)
            await second.append(records[:4])
            await second.append(records)
            assert await state_of(second, TURN) == before

    async def test_a_dispatch_has_to_be_taken_first(self, bench: RecordBench) -> None:
        """Then the taker goes on with its children, in the same group if it likes; the turn says who owns it."""
        async with bench:
            first = await bench.open("one")
            opened = a_dispatch()
            child = a_child(opened)
            await first.append([opened, child, *a_life(child)[:3]])
            await bench.kill(first.journal)
            second = await bench.open("two")
            left = await second.turn(TURN)
            assert left is not None
            assert (left.dispatches[0].owner, left.dispatches[0].owner_alive) == ("one", False)

            await refuses(second, a_life(child)[3], a_settling(opened))
            await refuses(second, a_taking(opened, 2))
            await second.append([a_taking(opened), a_life(child)[3], a_settling(opened)])
            taken = await second.turn(TURN)
            assert taken is not None
            dispatch = taken.dispatches[0]
            assert (dispatch.owner, dispatch.epoch, dispatch.owner_alive, dispatch.settled) == ("two", 1, True, True)

    async def test_dispatches_of_the_dead_are_left_behind(self, bench: RecordBench) -> None:
        """Oldest first, as many as asked for; not what has settled, has ended, was taken, or is one's own."""
        async with bench:
            first = await bench.open("one")
            opened = {turn: a_dispatch(turn, at=number) for number, turn in enumerate(("d", "c", "b", "a"))}
            for each in opened.values():
                await first.append([each])
            await first.append([a_settling(opened["c"], an_outcome("c", child_id=None, attempts=0))])
            ended = a_dispatch("ended")
            await first.append([ended, *an_end([ended], "ended")])
            await bench.kill(first.journal)
            second = await bench.open("two")
            await second.append([a_dispatch("own")])
            await second.append([a_taking(opened["b"])])

            for _ in range(2):
                assert list(await second.left_behind(10)) == [("d", "dispatch-1"), ("a", "dispatch-1")]
                assert list(await second.left_behind(1)) == [("d", "dispatch-1")]
            await second.append([a_taking(opened["d"])])
            assert list(await second.left_behind(1)) == [("a", "dispatch-1")]

    async def test_turns_that_were_never_ended_are_overdue(self, bench: RecordBench) -> None:
        """Oldest first, whichever process opened them; not those that have ended."""
        async with bench:
            first = await bench.open("one")
            await first.append([a_dispatch("early", claims=the_claims("early", -800))])
            over = a_dispatch("over", claims=the_claims("over", -801))
            await first.append([over, *an_end([over], "over")])
            await bench.kill(first.journal)
            second = await bench.open("two")
            await second.append([a_dispatch("later", claims=the_claims("later", -799))])
            assert list(await second.overdue_turns(moment(100), 10)) == []
            assert list(await second.overdue_turns(moment(101), 10)) == ["early"]
            assert list(await second.overdue_turns(moment(102), 10)) == ["early", "later"]
            assert list(await second.overdue_turns(moment(102), 1)) == ["early"]

    async def test_each_process_has_running_roots_of_its_own(self, bench: RecordBench) -> None:
        """A fact grows the root of the process that appends it, and no other."""
        async with bench:
            first = await bench.open("one")
            await first.append([a_dispatch()])
            await bench.kill(first.journal)
            second = await bench.open("two")
            await second.append(a_whole_turn("turn-2"))
            await second.append([a_taking(a_dispatch())])
            roots = {root.instance: root.number for root in await second.journal.roots()}
            day = (await second.journal.roots())[0].day
            assert roots[InstanceId("one")] == 1
            facts = [fact.by async for fact in second.journal.facts_of_day(day)]
            assert facts.count(second.instance) == roots[second.instance]
            assert facts.count(InstanceId("one")) == 1
