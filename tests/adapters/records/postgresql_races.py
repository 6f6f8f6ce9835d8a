"""What several sidecars, or one and its own attempt before, may do to one journal at the same time.

Each race is made with a second connection that holds a transaction open until the other side waits for it. It takes the
address of an empty journal, and fails unless everything is as it should be in the end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import pytest

from sidecar.adapters.record_postgresql import PostgresJournal
from sidecar.adapters.record_postgresql.appending import append
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import TurnAppend, TurnFacts
from sidecar.core.journal.encoding import draft_of
from sidecar.operations.record.ports import CommitUnknown
from tests.adapters.records.bench import OpenedRecord
from tests.adapters.records.postgresql_bench import (
    Opened,
    a_session_waits,
    check_journal,
    connection_to,
    decided,
    two_instances,
)
from tests.support.record_builders import a_child, a_dispatch, a_life, a_settling, a_taking, an_end

TURN: Final = TurnId("turn-1")
OPENED: Final = a_dispatch()
CHILD: Final = a_child(OPENED)
LIFE: Final = a_life(CHILD)
BEGUN: Final[tuple[Record, ...]] = (OPENED, CHILD, *LIFE[:2])
ON: Final = LIFE[2]
ON_AND_ON: Final[tuple[Sequence[Record], ...]] = ([ON], [LIFE[3], a_settling(OPENED)])
"""What its owner appends next."""

Race = Callable[[str, Opened], Awaitable[None]]


async def _facts(record: OpenedRecord, turn: TurnId = TURN) -> TurnFacts:
    return await record.journal.facts(turn)


class Paused(PostgresJournal):
    """Reads facts when it is let to.

    Attributes:
        asked, go_on: it is about to read; it may.
    """

    asked: asyncio.Event
    go_on: asyncio.Event

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn, after a while."""
        self.asked.set()
        await self.go_on.wait()
        return await super().facts(turn_id)


def _paused(record: OpenedRecord) -> Paused:
    """Have the journal of a record wait before it reads facts."""
    journal = record.journal
    journal.__class__ = Paused
    assert isinstance(journal, Paused)
    journal.asked, journal.go_on = asyncio.Event(), asyncio.Event()
    return journal


async def an_append_that_waited_for_a_takeover_is_refused(dsn: str, opened: Opened = OpenedRecord) -> None:
    """What it was decided on is over when its turn is free: the dispatch has another owner."""
    async with two_instances(dsn, opened) as (first, second), connection_to(dsn) as outside:
        await first.append(BEGUN)
        async with outside.transaction():
            taking = decided(second, (await _facts(second)).facts, a_taking(OPENED))
            assert await append(outside, second.instance, [taking])
            going_on = asyncio.ensure_future(first.append([ON]))
            await a_session_waits(outside)
            assert not going_on.done()
        with pytest.raises(RecordConflict, match="belongs"):
            await going_on
        await second.append([ON])
        await check_journal(dsn)


async def a_turn_that_two_begin_at_once_is_begun_by_one(dsn: str, opened: Opened = OpenedRecord) -> None:
    """The other one goes on with what is there then."""
    async with two_instances(dsn, opened) as (first, second), connection_to(dsn) as outside:
        async with outside.transaction():
            assert await append(outside, second.instance, [decided(second, (), *BEGUN)])
            beginning = asyncio.ensure_future(first.append([a_dispatch(dispatch="dispatch-2", first_step=1)]))
            await a_session_waits(outside)
        await beginning
        turn = await first.turn(TURN)
        assert turn is not None
        assert [each.owner for each in turn.dispatches] == ["two", "one"]
        await check_journal(dsn)


async def a_retry_that_waited_on_its_own_first_attempt_is_kept(dsn: str, opened: Opened = OpenedRecord) -> None:
    """Also if the dispatch was taken over before the retry looks at the turn again."""
    async with two_instances(dsn, opened) as (first, second), connection_to(dsn) as hung, connection_to(dsn) as watch:
        await first.append(BEGUN)
        journal = _paused(first)
        async with hung.transaction():
            attempt = decided(first, (await _facts(second)).facts, ON)
            assert await append(hung, first.instance, [attempt])
            retry = asyncio.ensure_future(first.append([draft_of(attempt.facts[0])]))
            await a_session_waits(watch)
        await asyncio.wait((retry, asyncio.ensure_future(journal.asked.wait())), return_when=asyncio.FIRST_COMPLETED)
        assert not retry.done()
        await second.append([a_taking(OPENED)])
        journal.go_on.set()
        await retry
        assert [fact.by for fact in (await _facts(second)).facts] == ["one", "one", "two"]
        await check_journal(dsn)


async def an_attempt_that_hangs_and_the_next_one_share_no_number(dsn: str, opened: Opened = OpenedRecord) -> None:
    """They are about different turns; the places in the journal of their instance go on from one to the other."""
    async with two_instances(dsn, opened) as (first, _), connection_to(dsn) as hung, connection_to(dsn) as watch:
        await first.append(BEGUN)
        async with hung.transaction():
            assert await append(hung, first.instance, [decided(first, (), *an_end(turn="hung"))])
            next_one = asyncio.ensure_future(first.append(an_end(turn="next")))
            await a_session_waits(watch)
        await next_one
        await check_journal(dsn)


async def a_turn_that_has_moved_on_gets_no_number(dsn: str, opened: Opened = OpenedRecord) -> None:
    """Between two that are kept: nothing of it is there, and no place is left free."""
    async with two_instances(dsn, opened) as (first, second):
        await first.append(BEGUN)
        before = (await _facts(first)).facts
        await second.append([a_taking(OPENED)])
        turns = [decided(first, (), *an_end(turn="a")), decided(first, before, ON)]
        turns.append(decided(first, (), *an_end(turn="z")))
        assert await first.journal.append(turns) == [True, False, True]
        assert len((await _facts(first)).facts) == 2
        await check_journal(dsn)


async def two_that_append_to_the_same_turns_in_opposite_order_do_not_deadlock(
    dsn: str, opened: Opened = OpenedRecord
) -> None:
    """Both wait for the turn in the middle; each holds what the other needs next, unless both lock in one order."""
    turns = [f"turn-{number}" for number in range(9)]
    async with two_instances(dsn, opened) as (first, second):
        for turn in turns:
            await first.append([a_dispatch(turn)])
        more = [
            [decided(each, (await _facts(first, TurnId(turn))).facts, a_dispatch(turn, "more", first_step=1))
            for turn in turns] for each in (first, second)
        ]  # fmt: skip
        async with connection_to(dsn) as one, connection_to(dsn) as other, connection_to(dsn) as middle:
            async with middle.transaction():
                await middle.execute("select from turn_heads where turn_id = 'turn-4' for update")
                appends = [asyncio.ensure_future(append(one, first.instance, more[0]))]
                await a_session_waits(middle)
                appends.append(asyncio.ensure_future(append(other, second.instance, more[1][::-1])))
                await a_session_waits(middle, 2)
            kept = await asyncio.gather(*appends)
        assert sorted(len(each) for each in kept) == [0, 9]
        await check_journal(dsn)


async def groups_of_one_turn_in_a_batch_are_all_kept(dsn: str, opened: Opened = OpenedRecord) -> None:
    """They were handed over while the writer was busy: one head update for all of them."""
    async with two_instances(dsn, opened) as (first, second), connection_to(dsn) as outside:
        await first.append(BEGUN)
        async with outside.transaction():
            await outside.execute("select from instance_heads for update")
            busy = asyncio.ensure_future(first.append(an_end(turn="busy")))
            await a_session_waits(outside)
            groups = [asyncio.ensure_future(first.append(group)) for group in ON_AND_ON]
            await asyncio.sleep(0)
            batches = first.batches
        await asyncio.gather(busy, *groups)
        assert first.batches == batches + 1
        assert list(await second.child_events(TURN, CHILD.child_id)) == LIFE[:4]
        await check_journal(dsn)


async def a_lost_answer_is_looked_for(dsn: str, opened: Opened = OpenedRecord) -> None:
    """Once it was kept and once it was not: in the end it is there, once."""
    async with two_instances(dsn, opened) as (first, second):
        await first.append(BEGUN)
        for kept, group in zip((True, False), ON_AND_ON, strict=True):
            _lose_the_next_answer(first.journal, kept=kept)
            await first.append(group)
        assert list(await second.child_events(TURN, CHILD.child_id)) == LIFE[:4]
        await check_journal(dsn)


def _lose_the_next_answer(journal: object, *, kept: bool) -> None:
    assert isinstance(journal, PostgresJournal)
    appends = journal.append

    async def lost(given: list[TurnAppend]) -> list[bool]:
        del journal.append  # the next one is the class's again
        if kept:
            await appends(given)
        raise CommitUnknown("the answer was lost")

    journal.append = lost  # type: ignore[assignment,method-assign]  # for one call
