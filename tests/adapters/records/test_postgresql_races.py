"""What several sidecars, or one and its own attempt before, may do to one journal at the same time.

Each race is made with a second connection that holds a transaction open until the other side waits for it. Each is then
made again with a defect in `journal_append`, or above it, and has to show it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
import pytest

from sidecar.adapters.record_postgresql import SCHEMA, PostgresJournal
from sidecar.adapters.record_postgresql import appending
from sidecar.adapters.record_postgresql.appending import append
from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import TurnAppend, TurnFacts
from sidecar.operations.record import journal_store
from sidecar.operations.record.ports import CommitUnknown
from sidecar.operations.record.translation import TranslatedTurn
from tests.adapters.records.bench import OpenedRecord
from tests.adapters.records.postgresql_bench import (
    a_session_waits,
    check_journal,
    connection_to,
    decided,
    two_instances,
)
from tests.support.record_builders import a_child, a_dispatch, a_life, a_settling, a_taking, an_end
from tests.support.requirement import requirement

TURN: Final = TurnId("turn-1")
OPENED: Final = a_dispatch()
CHILD: Final = a_child(OPENED)
LIFE: Final = a_life(CHILD)
BEGUN: Final = (OPENED, CHILD, *LIFE[:2])
ON: Final = LIFE[2]
"""What its owner appends next."""

Race = Callable[[str], Awaitable[None]]


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


# --- the races


async def _an_append_that_waited_for_a_takeover_is_refused(dsn: str) -> None:
    """What it was decided on is over when its turn is free: the dispatch has another owner."""
    async with two_instances(dsn) as (first, second), connection_to(dsn) as outside:
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


async def _a_turn_that_two_begin_at_once_is_begun_by_one(dsn: str) -> None:
    """The other one goes on with what is there then."""
    async with two_instances(dsn) as (first, second), connection_to(dsn) as outside:
        async with outside.transaction():
            assert await append(outside, second.instance, [decided(second, (), *BEGUN)])
            beginning = asyncio.ensure_future(first.append([a_dispatch(dispatch="dispatch-2", first_step=1)]))
            await a_session_waits(outside)
        await beginning
        turn = await first.turn(TURN)
        assert turn is not None
        assert [each.owner for each in turn.dispatches] == ["two", "one"]
        await check_journal(dsn)


async def _a_retry_that_waited_on_its_own_first_attempt_is_kept(dsn: str) -> None:
    """Also if the dispatch was taken over before the retry looks at the turn again."""
    async with two_instances(dsn) as (first, second), connection_to(dsn) as hung, connection_to(dsn) as watch:
        await first.append(BEGUN)
        journal = _paused(first)
        async with hung.transaction():
            attempt = decided(first, (await _facts(second)).facts, ON)
            assert await append(hung, first.instance, [attempt])
            retry = asyncio.ensure_future(first.append([ON]))
            await a_session_waits(watch)
        await asyncio.wait((retry, asyncio.ensure_future(journal.asked.wait())), return_when=asyncio.FIRST_COMPLETED)
        assert not retry.done()
        await second.append([a_taking(OPENED)])
        journal.go_on.set()
        await retry
        assert [fact.by for fact in (await _facts(second)).facts] == ["one", "one", "two"]
        await check_journal(dsn)


async def _an_attempt_that_hangs_and_the_next_one_share_no_number(dsn: str) -> None:
    """They are about different turns; the places in the journal of their instance go on from one to the other."""
    async with two_instances(dsn) as (first, _), connection_to(dsn) as hung, connection_to(dsn) as watch:
        await first.append(BEGUN)
        async with hung.transaction():
            assert await append(hung, first.instance, [decided(first, (), *an_end(turn="hung"))])
            next_one = asyncio.ensure_future(first.append(an_end(turn="next")))
            await a_session_waits(watch)
        await next_one
        await check_journal(dsn)


async def _a_turn_that_has_moved_on_gets_no_number(dsn: str) -> None:
    """Between two that are kept: nothing of it is there, and no place is left free."""
    async with two_instances(dsn) as (first, second):
        await first.append(BEGUN)
        before = (await _facts(first)).facts
        await second.append([a_taking(OPENED)])
        turns = [decided(first, (), *an_end(turn="a")), decided(first, before, ON)]
        turns.append(decided(first, (), *an_end(turn="z")))
        assert await first.journal.append(turns) == [True, False, True]
        assert len((await _facts(first)).facts) == 2
        await check_journal(dsn)


async def _two_that_append_to_the_same_turns_in_opposite_order_do_not_deadlock(dsn: str) -> None:
    """Both wait for the turn in the middle; each holds what the other needs next, unless both lock in one order."""
    turns = [f"turn-{number}" for number in range(9)]
    async with two_instances(dsn) as (first, second):
        for turn in turns:
            await first.append([a_dispatch(turn)])
        more = [
            [decided(each, (await _facts(first, TurnId(turn))).facts, a_dispatch(turn, "more", first_step=1))
            for turn in turns] for each in (first, second)
        ]  # fmt: skip
        async with connection_to(dsn) as one, connection_to(dsn) as other, connection_to(dsn) as middle:
            async with middle.transaction():
                await middle.execute("select from turn_heads where turn_id = 'turn-4' for update")
                appends = [
                    asyncio.ensure_future(append(one, first.instance, more[0])),
                    asyncio.ensure_future(append(other, second.instance, more[1][::-1])),
                ]
                while await middle.fetchval("select count(*) from pg_locks where not granted") < 2:
                    pass
            kept = await asyncio.gather(*appends)
        assert sorted(len(each) for each in kept) == [0, 9]
        await check_journal(dsn)


async def _groups_of_one_turn_in_a_batch_are_all_kept(dsn: str) -> None:
    """They were handed over while the writer was busy: one head update for all of them."""
    async with two_instances(dsn) as (first, second), connection_to(dsn) as outside:
        await first.append(BEGUN)
        async with outside.transaction():
            await outside.execute("select from instance_heads for update")
            busy = asyncio.ensure_future(first.append(an_end(turn="busy")))
            await a_session_waits(outside)
            groups = [asyncio.ensure_future(first.append(group)) for group in ([ON], [LIFE[3], a_settling(OPENED)])]
            await asyncio.sleep(0)
        batches = first.batches
        await asyncio.gather(busy, *groups)
        assert first.batches == batches + 1
        assert list(await second.child_events(TURN, CHILD.child_id)) == LIFE[:4]
        await check_journal(dsn)


async def _a_lost_answer_is_looked_for(dsn: str) -> None:
    """Once it was kept and once it was not: in the end it is there, once."""
    async with two_instances(dsn) as (first, second):
        await first.append(BEGUN)
        for kept, group in ((True, [ON]), (False, [LIFE[3], a_settling(OPENED)])):
            _lose_the_next_answer(first.journal, kept=kept)
            await first.append(group)
        assert list(await second.child_events(TURN, CHILD.child_id)) == LIFE[:4]
        await check_journal(dsn)


def _lose_the_next_answer(journal: object, *, kept: bool) -> None:
    assert isinstance(journal, PostgresJournal)
    appends = journal.append

    async def lost(given: list[TurnAppend]) -> list[bool]:
        del journal.append  # type: ignore[method-assign]  # the next one is the class's again
        if kept:
            await appends(given)
        raise CommitUnknown("the answer was lost")

    journal.append = lost  # type: ignore[assignment,method-assign]  # for one call


RACES: Final[tuple[Race, ...]] = (
    _an_append_that_waited_for_a_takeover_is_refused,
    _a_turn_that_two_begin_at_once_is_begun_by_one,
    _a_retry_that_waited_on_its_own_first_attempt_is_kept,
    _an_attempt_that_hangs_and_the_next_one_share_no_number,
    _a_turn_that_has_moved_on_gets_no_number,
    _two_that_append_to_the_same_turns_in_opposite_order_do_not_deadlock,
    _groups_of_one_turn_in_a_batch_are_all_kept,
    _a_lost_answer_is_looked_for,
)


def _name(race: object) -> str | None:
    return race.__name__.strip("_") if callable(race) else None


@requirement("SX-38")
@pytest.mark.parametrize("race", RACES, ids=_name)
async def test_a_race_ends_well(dsn: str, race: Race) -> None:
    """See each of them above."""
    await race(dsn)


# --- the same with a defect

AS_IT_WAS: Final = "and p_before[v_at] = (select version from turn_heads old where old.turn_id = p_turns[v_at])"
IN_SQL: Final[tuple[tuple[Race, str, str], ...]] = (
    # the turn is locked, and where it stands is read after that, as it was when the statement began
    (_an_append_that_waited_for_a_takeover_is_refused, "and version = p_before[v_at]", AS_IT_WAS),
    (_an_append_that_waited_for_a_takeover_is_refused, "and version = p_before[v_at]", ""),
    (
        _a_turn_that_two_begin_at_once_is_begun_by_one,
        "        on conflict do nothing;",
        "        on conflict (turn_id) do update set version = excluded.version;",
    ),
    (_an_attempt_that_hangs_and_the_next_one_share_no_number, "= p_instance for update;", "= p_instance;"),
    (_a_turn_that_has_moved_on_gets_no_number, "row_number() over (order by place)", "place"),
    (_a_turn_that_has_moved_on_gets_no_number, "      where v_kept[turn]\n  ), written", "  ), written"),
    (_a_turn_that_has_moved_on_gets_no_number, "where v_kept[turn]\n  ), written", "where v_kept[1]\n  ), written"),
)


@pytest.mark.parametrize(("race", "right", "wrong"), IN_SQL, ids=_name)
async def test_a_defect_in_the_statement_is_found(dsn: str, race: Race, right: str, wrong: str) -> None:
    """It breaks the race that it is about."""
    async with _planted(dsn, right, wrong):
        with pytest.raises((AssertionError, pytest.fail.Exception, StoreUnavailable, asyncpg.PostgresError)):
            await race(dsn)


@asynccontextmanager
async def _planted(dsn: str, right: str, wrong: str) -> AsyncIterator[None]:
    """Have `journal_append` be wrong in one place."""
    sql = SCHEMA[0].sql
    begin = sql.index("create function journal_append")
    function = sql[begin : sql.index("$$;", begin) + 3].replace("create function", "create or replace function")
    assert function.count(right) == 1
    async with connection_to(dsn) as connection:
        await connection.execute(function.replace(right, wrong))
        try:
            yield
        finally:
            await connection.execute(function)


def _as_given(what: Iterable[object], key: object = None) -> list[object]:
    """Return anything as it is, in the place of `sorted`."""
    return list(what)


class _Sticky(OrderedDict[TurnId, TranslatedTurn]):
    """Keeps what nothing is known of any more."""

    def pop(self, *_: object) -> None:  # type: ignore[override]  # that is the defect
        """Do nothing."""


ABOVE: Final[tuple[tuple[Race, object, str, object], ...]] = (
    # a lost compare-and-set is an answer; ownership is decided before duplicates; memory is believed after a lost answer
    (_a_turn_that_two_begin_at_once_is_begun_by_one, journal_store, "MOST_TRIES", 1),
    (_a_retry_that_waited_on_its_own_first_attempt_is_kept, journal_store, "MOST_TRIES", 1),
    (_a_retry_that_waited_on_its_own_first_attempt_is_kept, TranslatedTurn, "_is_there", lambda *_: False),
    (_a_lost_answer_is_looked_for, journal_store, "MOST_TRIES", 1),
    (_a_lost_answer_is_looked_for, journal_store, "OrderedDict", _Sticky),
    (_two_that_append_to_the_same_turns_in_opposite_order_do_not_deadlock, appending, "sorted", _as_given),
)


@pytest.mark.parametrize(("race", "where", "name", "wrong"), ABOVE, ids=_name)
async def test_a_defect_in_the_store_is_found(
    dsn: str, monkeypatch: pytest.MonkeyPatch, race: Race, where: object, name: str, wrong: object
) -> None:
    """It breaks the race that it is about."""
    monkeypatch.setattr(where, name, wrong, raising=False)
    with pytest.raises((AssertionError, RecordConflict, StoreUnavailable, asyncpg.DeadlockDetectedError)):
        await race(dsn)


async def test_a_turn_that_is_given_twice_is_refused(dsn: str) -> None:
    """One head update can be compared with one version only: the facts of the second would be lost, or unguarded."""
    async with two_instances(dsn) as (first, _):
        end = decided(first, (), *an_end())
        with pytest.raises(ValueError, match="twice"):
            await first.journal.append([end, end])
        await check_journal(dsn)
