"""Races for one journal in PostgreSQL end well; with a defect in `journal_append`, or above it, each shows it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
import pytest

from sidecar.adapters.record_postgresql import SCHEMA
from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.operations.record.journal_store import _Group, _Plan
from sidecar.operations.record.kept_turn import KeptTurn
from sidecar.operations.record.ports import CommitUnknown
from tests.adapters.records import postgresql_races as races
from tests.adapters.records.bench import OpenedRecord
from tests.adapters.records.postgresql_bench import Opened, check_journal, connection_to, decided, two_instances
from tests.adapters.records.postgresql_races import Race
from tests.support.record_builders import an_end
from tests.support.requirement import requirement

RACES: Final[tuple[Race, ...]] = (
    races.an_append_that_waited_for_a_takeover_is_refused,
    races.a_turn_that_two_begin_at_once_is_begun_by_one,
    races.a_retry_that_waited_on_its_own_first_attempt_is_kept,
    races.an_attempt_that_hangs_and_the_next_one_share_no_number,
    races.a_turn_that_has_moved_on_gets_no_number,
    races.two_that_append_to_the_same_turns_in_opposite_order_do_not_deadlock,
    races.groups_of_one_turn_in_a_batch_are_all_kept,
    races.a_lost_answer_is_looked_for,
)


def _name(race: object) -> str | None:
    return str(getattr(race, "__name__", "")).strip("_") or None


@requirement("SX-38")
@pytest.mark.parametrize("race", RACES, ids=_name)
async def test_a_race_ends_well(dsn: str, race: Race) -> None:
    """See each of them above."""
    await race(dsn, OpenedRecord)


# --- the same with a defect

AS_IT_WAS: Final = "and p_before[v_at] = (select version from turn_heads old where old.turn_id = p_turns[v_at])"
FROM_BEHIND: Final = """ loop
    perform from turn_heads where p_instance = 'two' and turn_id = p_turns[cardinality(p_turns) + 1 - v_at] for update;
"""
IN_SQL: Final[tuple[tuple[Race, str, str], ...]] = (
    # the turn is locked, and where it stands is read after that, as it was when the statement began
    (races.an_append_that_waited_for_a_takeover_is_refused, "and version = p_before[v_at]", AS_IT_WAS),
    (races.an_append_that_waited_for_a_takeover_is_refused, "and version = p_before[v_at]", ""),
    (
        races.a_turn_that_two_begin_at_once_is_begun_by_one,
        "        on conflict do nothing;",
        "        on conflict (turn_id) do update set version = excluded.version;",
    ),
    (races.an_attempt_that_hangs_and_the_next_one_share_no_number, "= p_instance for update;", "= p_instance;"),
    (races.two_that_append_to_the_same_turns_in_opposite_order_do_not_deadlock, " loop\n", FROM_BEHIND),
    (races.a_turn_that_has_moved_on_gets_no_number, "row_number() over (order by place)", "place"),
    (races.a_turn_that_has_moved_on_gets_no_number, "      where v_kept[turn]\n  ), written", "  ), written"),
    (
        races.a_turn_that_has_moved_on_gets_no_number,
        "where v_kept[turn]\n  ), written",
        "where v_kept[1]\n  ), written",
    ),
)


@pytest.mark.parametrize(("race", "right", "wrong"), IN_SQL, ids=_name)
async def test_a_defect_in_the_statement_is_found(dsn: str, race: Race, right: str, wrong: str) -> None:
    """It breaks the race that it is about."""
    async with _planted(dsn, right, wrong):
        with pytest.raises((AssertionError, pytest.fail.Exception, StoreUnavailable, asyncpg.PostgresError)):
            await race(dsn, OpenedRecord)


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


class TakesNoForAnAnswer(OpenedRecord):
    """What was not kept because the turn had moved on is told as if that were that."""

    async def _keep(self, plans: Sequence[_Plan]) -> None:
        await super()._keep(plans)
        for plan in plans:
            plan.tell()


class LooksForNothing(OpenedRecord):
    """Ownership is decided before what is on record already."""

    def _decide(self, turn: KeptTurn, groups: list[_Group]) -> _Plan | None:
        turn.standing.salts.clear()
        return super()._decide(turn, groups)


class BelievesItsMemory(OpenedRecord):
    """A turn stays as it was decided after a commit whose answer was lost."""

    async def _keep(self, plans: Sequence[_Plan]) -> None:
        decided = dict(self._turns)
        try:
            await super()._keep(plans)
        except CommitUnknown:
            self._turns.update(decided)
            raise


IN_THE_STORE: Final[tuple[tuple[Race, Opened], ...]] = (
    (races.a_turn_that_two_begin_at_once_is_begun_by_one, TakesNoForAnAnswer),
    (races.an_append_that_waited_for_a_takeover_is_refused, TakesNoForAnAnswer),
    (races.a_retry_that_waited_on_its_own_first_attempt_is_kept, TakesNoForAnAnswer),
    (races.a_retry_that_waited_on_its_own_first_attempt_is_kept, LooksForNothing),
    (races.a_lost_answer_is_looked_for, LooksForNothing),
    (races.a_lost_answer_is_looked_for, BelievesItsMemory),
)


@pytest.mark.parametrize(("race", "opened"), IN_THE_STORE, ids=_name)
async def test_a_defect_in_the_store_is_found(dsn: str, race: Race, opened: Opened) -> None:
    """It breaks the race that it is about."""
    with pytest.raises((AssertionError, RecordConflict, StoreUnavailable, pytest.fail.Exception)):
        await race(dsn, opened)


async def test_a_turn_that_is_given_twice_is_refused(dsn: str) -> None:
    """One head update can be compared with one version only: the facts of the second would be lost, or unguarded."""
    async with two_instances(dsn) as (first, _):
        end = decided(first, (), *an_end())
        with pytest.raises(ValueError, match="twice"):
            await first.journal.append([end, end])
        await check_journal(dsn)
