"""Rules 1 to 4: what may be appended, and what is refused."""

from collections.abc import Sequence

import pytest

from sidecar.core.errors import RecordConflict
from sidecar.core.executing.chain import NOTHING, closed_root
from sidecar.core.executing.records import CallSettled, ChildOpened, Record, TurnEnded
from sidecar.core.identifiers import ChildId, TurnId
from tests.adapters.records.bench import RecordBench, refuses, state_of
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_log,
    a_routing,
    a_settling,
    a_taking,
    a_turn_end,
    a_whole_turn,
    an_attempt,
    an_outcome,
    moment,
    with_other_contents,
)

TURN = TurnId("turn-1")


class AppendingRules:
    """Subclass it with a fixture `bench`."""

    async def test_a_turn_is_read_back_as_it_was_appended(self, bench: RecordBench) -> None:
        """Contract, events to the microsecond, outcomes, frames, end and routing decision: equal, in order."""
        async with bench:
            database = await bench.open("one")
            records = a_whole_turn(slots=("shop", "rewards", "shop"))
            await database.commit(records)

            turn = await database.turn(TURN)
            assert turn is not None
            read: list[object] = [turn.dispatches[0].opened, turn.ended, turn.routing, *await database.attempts(TURN)]
            for child in turn.children:
                read += [child.opened, *child.events]
                assert tuple(await database.child_events(child.opened.child_id)) == child.events
            settled = [record for record in records if isinstance(record, CallSettled)]
            assert sorted(turn.dispatches[0].outcomes, key=str) == sorted((each.outcome for each in settled), key=str)
            assert sorted(map(repr, read)) == sorted(repr(each) for each in records if each not in settled)
            assert [child.opened.step_idx for child in turn.children] == [0, 1, 2]

    async def test_groups_add_up(self, bench: RecordBench) -> None:
        """Each record in a group of its own comes to the same as all in one."""
        async with bench:
            database = await bench.open("one")
            await database.commit(a_whole_turn("together"))
            for record in a_whole_turn("apart"):
                await database.commit([record])

            together, apart = await database.turn(TurnId("together")), await database.turn(TurnId("apart"))
            assert together is not None
            assert apart is not None
            assert [len(child.events) for child in together.children] == [len(c.events) for c in apart.children]
            assert together.dispatches[0].outcomes[0].answer == apart.dispatches[0].outcomes[0].answer

    async def test_an_empty_group_changes_nothing(self, bench: RecordBench) -> None:
        """It is no error either."""
        async with bench:
            database = await bench.open("one")
            await database.commit([])
            assert await database.turn(TURN) is None

    async def test_appending_again_changes_nothing(self, bench: RecordBench) -> None:
        """The whole group, parts of it, and parts of it with something new behind, in any group."""
        async with bench:
            database = await bench.open("one")
            records = a_whole_turn()
            await database.commit(records)
            before = await state_of(database, TURN)

            await database.commit(records)
            await database.commit(records[3:6])
            await database.commit([*records, *records])
            assert await state_of(database, TURN) == before
            await database.commit([*records, a_dispatch("turn-2")])
            assert await state_of(database, TURN) == before
            assert await database.turn(TurnId("turn-2")) is not None

    async def test_a_group_may_hold_a_record_twice(self, bench: RecordBench) -> None:
        """An event twice in one group is one event."""
        async with bench:
            database = await bench.open("one")
            opened = a_dispatch()
            child = a_child(opened)
            created = a_life(child)[0]
            await database.commit([opened, child, created, created])
            assert list(await database.child_events(child.child_id)) == [created]

    @pytest.mark.parametrize("index", range(len(a_whole_turn())))
    async def test_other_contents_are_refused(self, bench: RecordBench, index: int) -> None:
        """Each kind of record in turn, with the same id and other contents; the group's other record goes, too."""
        async with bench:
            database = await bench.open("one")
            records = a_whole_turn()
            await database.commit(records)
            await refuses(database, a_dispatch("turn-2"), with_other_contents(records[index]))
            assert await database.turn(TurnId("turn-2")) is None

    async def test_a_refused_group_leaves_nothing(self, bench: RecordBench) -> None:
        """Everything of a turn in one group whose last record is wrong, and the same group without it afterwards."""
        async with bench:
            database = await bench.open("one")
            records = a_whole_turn()
            wrong = a_taking(a_dispatch("unknown"))
            with pytest.raises(RecordConflict):
                await database.commit([*records, wrong])
            assert await state_of(database, TURN) == (None, (), ())
            await database.commit(records)
            assert await database.turn(TURN) is not None

    async def test_nothing_is_opened_after_the_end(self, bench: RecordBench) -> None:
        """Neither a dispatch nor a child; what is there already may be appended again."""
        async with bench:
            database = await bench.open("one")
            records = a_whole_turn()
            await database.commit(records)
            await refuses(database, a_dispatch(dispatch="dispatch-2"))
            await refuses(database, a_child(a_dispatch(), 1))
            await database.commit(records[:2])

    async def test_a_turn_with_an_open_child_does_not_end(self, bench: RecordBench) -> None:
        """A child that waits for the parent holds up the end; in the group that closes it, the turn may end."""
        async with bench:
            database = await bench.open("one")
            opened = a_dispatch()
            child = a_child(opened)
            life = a_life(child)
            await database.commit([opened, child, *life[:4]])
            await refuses(database, a_turn_end())
            await database.commit([*life[4:], a_turn_end()])

    async def test_a_turn_that_called_nobody_ends(self, bench: RecordBench) -> None:
        """Its end and its routing decision are all there is."""
        async with bench:
            database = await bench.open("one")
            await database.commit([a_turn_end(), a_routing(slots=())])
            turn = await database.turn(TURN)
            assert turn is not None
            assert (turn.dispatches, turn.children, turn.ended) == ((), (), a_turn_end())

    @pytest.mark.parametrize("what", ["child", "event", "attempt", "outcome", "taking"])
    async def test_what_belongs_to_no_dispatch_is_refused(self, bench: RecordBench, what: str) -> None:
        """Its dispatch was never opened."""
        async with bench:
            database = await bench.open("one")
            opened = a_dispatch("unknown")
            child = a_child(opened)
            records: dict[str, Record] = {
                "child": child,
                "event": a_life(child)[0],
                "attempt": an_attempt(child),
                "outcome": a_settling(opened),
                "taking": a_taking(opened),
            }
            await refuses(database, records[what])

    async def test_two_children_of_a_turn_cannot_take_one_step(self, bench: RecordBench) -> None:
        """Not in one dispatch, and not in two; another turn has steps of its own."""
        async with bench:
            database = await bench.open("one")
            first, second = a_dispatch(), a_dispatch(dispatch="dispatch-2")
            await database.commit([first, second, a_child(first)])
            await refuses(database, a_child(first, child_id=ChildId("another")))
            await refuses(database, a_child(second, child_id=ChildId("another")))
            other = a_dispatch("turn-2")
            await database.commit([other, a_child(other)])

    async def test_events_follow_each_other(self, bench: RecordBench) -> None:
        """A gap, a first one that is not 1, another chain, and anything behind the close are refused."""
        async with bench:
            database = await bench.open("one")
            opened = a_dispatch()
            child = a_child(opened)
            life, elsewhere = a_life(child), a_life(a_child(opened, context_json="{}"), failed=True)
            await database.commit([opened, child])
            await refuses(database, life[1])
            await refuses(database, elsewhere[0])
            await database.commit(life[:2])
            await refuses(database, life[3])
            await refuses(database, a_log(child, elsewhere[:2]).attempt(moment(3), 1, an_attempt(child).attempt_id))
            await database.commit(life[2:])
            await refuses(database, a_log(child, life)._event(moment(9), "agent.note", "sidecar", "too late"))

    async def test_each_child_has_a_chain_of_its_own(self, bench: RecordBench) -> None:
        """Events of two children in one group, by turns."""
        async with bench:
            database = await bench.open("one")
            opened = a_dispatch(calls=2)
            one, two = a_child(opened), a_child(opened, 1, "rewards")
            mixed: list[Record] = []
            for left, right in zip(a_life(one), a_life(two), strict=True):
                mixed += [left, right]
            await database.commit([opened, one, two, *mixed])
            assert list(await database.child_events(one.child_id)) == a_life(one)
            assert list(await database.child_events(two.child_id)) == a_life(two)

    async def test_each_close_grows_the_running_root_by_one(self, bench: RecordBench) -> None:
        """In order of append, and only once however often it is appended."""
        async with bench:
            database = await bench.open("one")
            groups = [a_whole_turn("turn-1", ("shop", "rewards")), a_whole_turn("turn-2")]
            for group in groups:
                await database.commit(group)
                await database.commit(group)

            links = [link async for link in database.closed_children(database.instance)]
            closes = [(child, a_life(child)[-1].link) for child in _children(groups[0])]
            last = _children(groups[1])[0]
            closes.append((last, (await database.child_events(last.child_id))[-1].link))
            root, expected = NOTHING, []
            for number, (child, link) in enumerate(closes, 1):
                root = closed_root(root, child.child_id, link)
                expected.append((number, child.child_id, link, root))
            assert [(link.number, link.child_id, link.last_link, link.root) for link in links] == expected
            (state,) = await database.closed_states()
            assert (state.instance, state.number, state.root) == ("one", 3, root)

    async def test_the_last_revision_of_an_outcome_stands(self, bench: RecordBench) -> None:
        """Revision 1 stands in whatever order the two come, and alone."""
        async with bench:
            database = await bench.open("one")
            told = an_outcome(attempts=2)
            for turn, order in (("both", (0, 1)), ("reversed", (1, 0)), ("alone", (1,))):
                opened = a_dispatch(turn)
                await database.commit([opened])
                for revision in order:
                    outcome = told if revision else an_outcome()
                    await database.commit([a_settling(opened, outcome, revision=revision)])
                kept = await database.turn(TurnId(turn))
                assert kept is not None
                assert kept.dispatches[0].outcomes == (told,)
                assert kept.dispatches[0].settled

    async def test_the_end_is_kept_whole(self, bench: RecordBench) -> None:
        """Text of any kind comes back as it was."""
        async with bench:
            database = await bench.open("one")
            end: TurnEnded = a_turn_end(narration="Grüße \U0001f600 \"'\\ 100 % \t\n")
            await database.commit([end])
            kept = await database.turn(TURN)
            assert kept is not None
            assert kept.ended == end


def _children(records: Sequence[Record]) -> list[ChildOpened]:
    return [record for record in records if isinstance(record, ChildOpened)]
