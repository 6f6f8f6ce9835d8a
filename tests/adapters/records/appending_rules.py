"""What is appended through a store, kept by a database and read back."""

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import Final

import pytest

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ATTEMPT, CLOSED, CREATED, INTEGRATION_ACCEPTED, STARTED, ChildEvent
from sidecar.core.executing.records import AttemptRecorded, CallSettled, Record, TurnEnded
from sidecar.core.identifiers import ChildId, InstanceId, TurnId
from sidecar.core.journal.chain import NOTHING, rooted
from tests.adapters.records.bench import OpenedRecord, RecordBench, refuses, state_of
from tests.support.record_builders import (
    BEGIN,
    a_child,
    a_dispatch,
    a_life,
    a_log,
    a_settling,
    a_taking,
    a_whole_turn,
    an_attempt,
    an_end,
    an_outcome,
    moment,
    with_other_contents,
)

TURN = TurnId("turn-1")
DAY: date = BEGIN.date()
EVENT_GROUP: Final = {CREATED: 0, STARTED: 0, ATTEMPT: 1, INTEGRATION_ACCEPTED: 3, CLOSED: 3}


def _is_frames(record: Record) -> bool:
    return isinstance(record, AttemptRecorded)


class AppendingRules:
    """Subclass it with a fixture `bench`."""

    async def test_a_turn_is_read_back_as_it_was_appended(self, bench: RecordBench) -> None:
        """Contract, events to the microsecond, outcomes, frames, end and routing decision: equal, in order."""
        async with bench:
            record = await bench.open("one")
            records = a_whole_turn(slots=("shop", "rewards", "shop"))
            await record.append(records)

            turn = await record.turn(TURN)
            assert turn is not None
            read: list[object] = [turn.dispatches[0].opened, turn.ended, turn.routing, *await record.attempts(TURN)]
            for child in turn.children:
                read += [child.opened, *child.events]
                assert tuple(await record.child_events(TURN, child.opened.child_id)) == child.events
            settled = [each for each in records if isinstance(each, CallSettled)]
            assert sorted(turn.dispatches[0].outcomes, key=str) == sorted((each.outcome for each in settled), key=str)
            assert sorted(map(repr, read)) == sorted(repr(each) for each in records if each not in settled)
            assert [child.opened.step_idx for child in turn.children] == [0, 1, 2]

    async def test_groups_add_up(self, bench: RecordBench) -> None:
        """A turn in as many groups as a sidecar makes of it comes to the same as all in one."""
        async with bench:
            record = await bench.open("one")
            await record.append(a_whole_turn("together"))
            for group in in_groups(a_whole_turn("apart")):
                await record.append(group)

            together, apart = await record.turn(TurnId("together")), await record.turn(TurnId("apart"))
            assert together is not None
            assert apart is not None
            assert [len(child.events) for child in together.children] == [len(c.events) for c in apart.children]
            assert together.dispatches[0].outcomes[0].answer == apart.dispatches[0].outcomes[0].answer
            assert len(await record.attempts(TurnId("apart"))) == 1
            together_facts = await record.journal.facts(TurnId("together"))
            apart_facts = await record.journal.facts(TurnId("apart"))

        assert len(together_facts.facts) < len(apart_facts.facts)

    async def test_an_empty_group_changes_nothing(self, bench: RecordBench) -> None:
        """It is no error either."""
        async with bench:
            record = await bench.open("one")
            await record.append([])
            assert await record.turn(TURN) is None

    async def test_appending_again_changes_nothing(self, bench: RecordBench) -> None:
        """The whole group, parts of it, and with something new behind; also by a process that has to read it first."""
        async with bench:
            record = await bench.open("one")
            records: list[Record] = [a_dispatch(), a_child(a_dispatch()), *a_life(a_child(a_dispatch()))[:3]]
            await record.append(records)
            before = await state_of(record, TURN)

            for again in (records, records[2:4], [*records, *records]):
                await record.append(again)
                assert await state_of(record, TURN) == before
            await record.append([*records, a_life(a_child(a_dispatch()))[3]])
            await record.append(records)
            turn = await record.turn(TURN)

            assert turn is not None
            assert [len(child.events) for child in turn.children] == [4]

    async def test_a_group_may_hold_a_record_twice(self, bench: RecordBench) -> None:
        """An event twice in one group is one event."""
        async with bench:
            record = await bench.open("one")
            child = a_child(a_dispatch())
            life = a_life(child)[:3]
            await record.append([a_dispatch(), child, *life, life[2]])
            assert list(await record.child_events(TURN, child.child_id)) == life

    @pytest.mark.parametrize("index", [at for at, each in enumerate(a_whole_turn()) if not _is_frames(each)])
    async def test_other_contents_are_refused(self, bench: RecordBench, index: int) -> None:
        """Each kind of record in turn, with the same id and other contents."""
        async with bench:
            record = await bench.open("one")
            records = a_whole_turn()
            await record.append(records)
            await refuses(record, with_other_contents(records[index]))

    async def test_a_refused_group_leaves_nothing(self, bench: RecordBench) -> None:
        """Everything of a turn in one group whose last record is wrong, and the same group without it afterwards."""
        async with bench:
            record = await bench.open("one")
            records = a_whole_turn()
            await refuses(record, *records[:-2], a_taking(a_dispatch(dispatch="unknown")), *records[-2:])
            assert await record.turn(TURN) is None
            await record.append(records)
            assert await record.turn(TURN) is not None

    async def test_nothing_is_opened_after_the_end(self, bench: RecordBench) -> None:
        """Neither a dispatch nor a child; what is there already may be appended again."""
        async with bench:
            record = await bench.open("one")
            records = a_whole_turn()
            await record.append(records)
            await refuses(record, a_dispatch(dispatch="dispatch-2", first_step=1))
            await refuses(record, a_child(a_dispatch(), 1))
            await record.append(records[:2])

    async def test_a_turn_with_an_open_child_does_not_end(self, bench: RecordBench) -> None:
        """A child that waits for the parent holds up the end; in the group that closes it, the turn may end."""
        async with bench:
            record = await bench.open("one")
            opened = a_dispatch()
            child = a_child(opened)
            life = a_life(child)
            before: list[Record] = [opened, child, *life[:4], a_settling(opened)]
            await record.append(before)
            await refuses(record, *an_end(before))
            await record.append([*life[4:], *an_end([*before, *life[4:]])])
            turn = await record.turn(TURN)
            assert turn is not None
            assert turn.ended is not None

    async def test_a_turn_that_called_no_sub_agent_ends(self, bench: RecordBench) -> None:
        """Its end and its routing decision are all there is."""
        async with bench:
            record = await bench.open("one")
            end = an_end()
            await record.append(end)
            turn = await record.turn(TURN)
            assert turn is not None
            assert (turn.dispatches, turn.children, [turn.ended, turn.routing]) == ((), (), end)

    @pytest.mark.parametrize("what", ["child", "event", "outcome", "taking"])
    async def test_what_belongs_to_no_dispatch_is_refused(self, bench: RecordBench, what: str) -> None:
        """Its dispatch was never opened."""
        async with bench:
            record = await bench.open("one")
            opened = a_dispatch("unknown")
            child = a_child(opened)
            records: dict[str, Record] = {
                "child": child,
                "event": a_life(child)[2],
                "outcome": a_settling(opened),
                "taking": a_taking(opened),
            }
            await refuses(record, records[what])

    async def test_two_children_of_a_turn_cannot_take_one_step(self, bench: RecordBench) -> None:
        """Not in one dispatch, and not in two; another turn has steps of its own."""
        async with bench:
            record = await bench.open("one")
            first, second = a_dispatch(), a_dispatch(dispatch="dispatch-2", first_step=1)
            await record.append([first, a_child(first), second])
            await refuses(record, a_child(first, child_id=ChildId("another")))
            await refuses(record, a_child(second, child_id=ChildId("another")))
            other = a_dispatch("turn-2")
            await record.append([other, a_child(other)])

    async def test_events_follow_each_other(self, bench: RecordBench) -> None:
        """A gap, another chain, and anything behind the close are refused."""
        async with bench:
            record = await bench.open("one")
            opened = a_dispatch()
            child = a_child(opened)
            life, elsewhere = a_life(child), a_life(a_child(opened, slot="rewards"), failed=True)
            await record.append([opened, child, *life[:2]])
            await refuses(record, life[3])
            await refuses(record, elsewhere[2])
            await record.append([life[2]])
            await refuses(record, a_log(child, elsewhere[:2]).attempt(moment(3), 2, an_attempt(child, 2).attempt_id))
            await record.append([life[3], a_settling(opened)])
            await record.append(life[4:])
            await refuses(record, a_log(child, life)._event(moment(9), ATTEMPT, "sidecar", "too late"))

    async def test_each_child_has_a_chain_of_its_own(self, bench: RecordBench) -> None:
        """Events of two children in one group, by turns."""
        async with bench:
            record = await bench.open("one")
            opened = a_dispatch(slots=("shop", "rewards"))
            one, two = a_child(opened), a_child(opened, 1, "rewards")
            mixed: list[Record] = []
            for left, right in zip(a_life(one)[:4], a_life(two)[:4], strict=True):
                mixed += [left, right]
            await record.append([opened, one, two, *mixed])
            assert list(await record.child_events(TURN, one.child_id)) == a_life(one)[:4]
            assert list(await record.child_events(TURN, two.child_id)) == a_life(two)[:4]

    async def test_each_fact_grows_the_running_root_by_one(self, bench: RecordBench) -> None:
        """In order of append, and only once however often it is appended; each day has a root of its own."""
        async with bench:
            record = await bench.open("one")
            groups = [a_whole_turn("turn-1", ("shop", "rewards")), a_whole_turn("turn-2"), a_whole_turn("b", at=86_400)]
            for group in groups:
                await record.append(group)
                await record.append(group)

            one = InstanceId("one")
            facts = [fact async for fact in record.journal.facts_of_day(DAY)]
            root = NOTHING
            for fact in facts:
                root = rooted(root, fact.link)
            today, tomorrow = await record.journal.roots()
            turns = [await record.journal.facts(TurnId(turn)) for turn in ("turn-1", "turn-2")]

            assert facts == [fact for turn in turns for fact in turn.facts]
            assert (today.instance, today.day, today.number, today.root) == (one, DAY, len(facts), root.hex())
            later = [fact.turn_id async for fact in record.journal.facts_of_day(tomorrow.day)]
            assert (tomorrow.day.day - DAY.day, later) == (1, ["b"] * tomorrow.number)

    async def test_the_last_revision_of_an_outcome_stands(self, bench: RecordBench) -> None:
        """Revision 1 stands in whatever order the two come, and alone."""
        async with bench:
            record = await bench.open("one")
            for turn, order in (("both", (0, 1)), ("reversed", (1, 0)), ("alone", (1,))):
                told = an_outcome(turn, attempts=2)
                opened = a_dispatch(turn)
                await record.append([opened, a_child(opened)])
                for revision in order:
                    outcome = told if revision else an_outcome(turn)
                    await record.append([a_settling(opened, outcome, revision=revision)])
                kept = await record.turn(TurnId(turn))
                assert kept is not None
                assert kept.dispatches[0].outcomes == (told,)
                assert kept.dispatches[0].settled

    async def test_the_end_is_kept_whole(self, bench: RecordBench) -> None:
        """Text of any kind comes back as it was."""
        async with bench:
            record = await bench.open("one")
            end = an_end(narration="Grüße \U0001f600 \"'\\ 100 % \t\n \0")
            await record.append(end)
            kept = await record.turn(TURN)
            assert kept is not None
            assert kept.ended == end[0]

    async def test_turns_of_one_batch_are_kept_together(self, bench: RecordBench) -> None:
        """More than one statement takes, some with several groups, each of them as if it were alone."""
        async with bench:
            record = await bench.open("one")
            turns = [f"turn-{number}" for number in range(70)]
            groups = [group for turn in turns for group in in_groups(a_whole_turn(turn))[:3]]
            await asyncio.gather(*(record.append(group) for group in groups))
            read = [await record.turn(TurnId(turn)) for turn in turns]
            assert [turn and [len(child.events) for child in turn.children] for turn in read] == [[4]] * 70
            (root,) = await record.journal.roots()
            assert root.number == len([fact async for fact in record.journal.facts_of_day(root.day)])

    @pytest.mark.parametrize(("new", "place"), [(2, 2), (3, 0), (3, 3), (4, 4), (6, 5), (7, 2)])
    async def test_a_turn_that_is_there_already_costs_the_others_of_its_batch_nothing(
        self, new: int, place: int, bench: RecordBench
    ) -> None:
        """A process that does not know a turn begins it again, in one batch with new ones: these are kept whole.

        One insert of them takes several statements, of which a refused one leaves those before it in place.
        """
        async with bench:
            record = await bench.open("one")
            await record.append([a_dispatch("there")])
            forgetful = OpenedRecord(record.journal)
            turns = [f"new-{number}" for number in range(new)]
            turns.insert(place, "there")
            await asyncio.gather(*(forgetful.append([a_dispatch(turn)]) for turn in turns))

            kept = {turn: await record.turn(TurnId(turn)) for turn in turns}
            assert [turn for turn, each in kept.items() if each is None or len(each.dispatches) != 1] == []
            assert sorted([each async for each in record.journal.turn_ids()]) == sorted(turns)


def in_groups(records: Sequence[Record]) -> list[list[Record]]:
    """Return the records of a turn in the groups in which a sidecar appends them.

    The opening with the children; attempts; the end of their work with the outcomes; verdicts; the end of the turn.
    """
    groups: list[list[Record]] = [[], [], [], [], []]
    for record in records:
        match record:
            case ChildEvent():
                place = EVENT_GROUP.get(record.name, 2)
            case CallSettled() | AttemptRecorded():
                place = 2
            case TurnEnded() | RoutingRecord():
                place = 4
            case _:
                place = 0
        groups[place].append(record)
    return groups
