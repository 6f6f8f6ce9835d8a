"""The SQL and the plain objects keep the same, whichever instance appends it, whatever state it was decided on."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sidecar.adapters.record_memory import JournalContents, MemoryJournal
from sidecar.adapters.record_postgresql import JournalOptions, PostgresJournal, open_postgres_journal
from sidecar.core.executing.records import DispatchOpened, Record
from sidecar.core.identifiers import EpisodeId, InstanceId, TurnId
from sidecar.core.journal.appends import TurnAppend
from sidecar.core.journal.encoding import SALT_BYTES
from sidecar.core.journal.entries import Stored
from sidecar.operations.record.ports import Journal
from tests.adapters.records.postgresql_bench import check_journal, connection_to
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_settling,
    a_taking,
    an_attempt,
    an_end,
    an_outcome,
    moment,
    the_claims,
)
from tests.support.recording.translation import TranslatedTurn
from tests.support.requirement import requirement

EXAMPLES = 30
TURNS = 3
DAYS = (0, 0, 86_400)

# A batch: by whom, and which turns, each decided on what is there, or on what was there one or two facts before.
one_of_batch = st.tuples(st.integers(0, TURNS - 1), st.sampled_from((0, 0, 0, 1, 2)))
turns_of_batch = st.lists(one_of_batch, min_size=1, max_size=TURNS, unique_by=lambda one: one[0])
batches = st.lists(st.tuples(st.sampled_from((0, 0, 1)), turns_of_batch), min_size=2, max_size=16)


def a_script(turn: str, at: float) -> list[list[Record]]:
    """Return the groups of a turn with two dispatches, in the order in which they come."""
    claims = the_claims(turn, at, episode_id=EpisodeId(f"of-{turn}"))
    first = a_dispatch(turn, at=at, slots=("shop", "rewards"), claims=claims)
    second = a_dispatch(turn, "dispatch-2", at=at + 1, first_step=2, claims=claims)
    children = [a_child(first), a_child(first, 1, "rewards"), a_child(second, 2)]
    lives = [a_life(child, at + 2) for child in children]
    script: list[list[Record]] = [[first, *children[:2], *lives[0][:2], *lives[1][:2]]]
    script += [[lives[1][2]], [second, children[2], *lives[2][:2]]]
    for opened, child, life in zip((first, first, second), children, lives, strict=True):
        outcome = an_outcome(turn, child.step_idx, child.slot)
        known = {record.record_id for group in script for record in group}
        work: list[Record] = [event for event in life[:4] if event.record_id not in known]
        script.append([*work, a_settling(opened, outcome, at + 5), an_attempt(child)])
    script.append([event for life in lives for event in life[4:]])
    return [*script, an_end([record for group in script for record in group], turn, at + 20)]


def next_append(
    by: InstanceId, turn_id: TurnId, facts: Sequence[Stored], script: Sequence[Sequence[Record]]
) -> TurnAppend | None:
    """Return what an instance appends next to a turn with these facts: the next group, or that it takes dispatches."""
    turn = TranslatedTurn(turn_id, facts)
    for group in script:
        taken = turn.take(group, by, lambda: bytes(SALT_BYTES))
        if isinstance(taken, str):
            heads = turn.state.head.dispatches
            known = [each for part in script for each in part if isinstance(each, DispatchOpened)]
            theirs = [each for each in known if each.dispatch_id in heads and heads[each.dispatch_id].owner != by]
            takings = [a_taking(each, heads[each.dispatch_id].epoch + 1) for each in theirs]
            taken = turn.take(takings, by, lambda: bytes(SALT_BYTES))
        assert not isinstance(taken, str), taken
        state = turn.state
        if taken.facts and state.day is not None:
            return TurnAppend(turn_id, state.day, len(facts), state.head, state.index, taken.facts, taken.frames)
    return None


async def all_that_is_kept(journal: Journal, turns: Sequence[TurnId]) -> list[Any]:
    """Return whatever can be asked about some turns."""
    found: list[Any] = []
    for turn_id in turns:
        episode = EpisodeId(f"of-{turn_id}")
        kept = await journal.facts(turn_id)
        found += [kept.facts, {fact.by for fact in kept.facts} <= kept.living, list(await journal.frames(turn_id))]
        found.append(await journal.last_called(episode))
    for at in (0, 1000, 90_000):
        found += [sorted(await journal.overdue_turns(moment(at), 9)), list(await journal.removable(moment(at)))]
    for root in await journal.roots():
        found += [root, [fact async for fact in journal.facts_of_day(root.day) if fact.by == root.instance]]
    return [*found, sorted([turn_id async for turn_id in journal.turn_ids()]), sorted(await journal.open_turns(99))]


async def _empty(dsn: str) -> None:
    async with connection_to(dsn) as connection:
        tables = ("facts", "attempt_frames", "turn_heads", "roots")
        deleted = "; ".join(f"delete from {table}" for table in tables)
        await connection.execute(
            f"set session_replication_role = replica; {deleted}; update instance_heads set number = 0"
        )


class TwoJournals:
    """The same two instances, in PostgreSQL and in memory."""

    def __init__(self, dsn: str, postgres: Sequence[PostgresJournal]) -> None:
        self.dsn = dsn
        self.postgres = postgres
        self.numbers = count(1)

    async def tried(self, given: Sequence[tuple[int, Sequence[tuple[int, int]]]]) -> None:
        """Append the batches of one example, to turns of its own."""
        await _empty(self.dsn)
        number_of_example = next(self.numbers)
        turns = [TurnId(f"turn-{number_of_example}-{number}") for number in range(TURNS)]
        scripts = [a_script(turn, at) for turn, at in zip(turns, DAYS, strict=True)]
        contents = JournalContents()
        memory = [MemoryJournal(contents, each.instance, lambda _: True) for each in self.postgres]
        for who, batch in given:
            appends: list[TurnAppend] = []
            for number, behind in batch:
                facts = (await memory[0].facts(turns[number])).facts
                facts = facts[: max(0, len(facts) - behind)]
                append = next_append(memory[who].instance, turns[number], facts, scripts[number])
                appends += [] if append is None else [append]
            ordered = sorted(appends, key=lambda each: each.turn_id)  # numbers are given in this order
            assert list(await self.postgres[who].append(ordered)) == list(await memory[who].append(ordered))
        one, other = [await all_that_is_kept(journals[0], turns) for journals in (self.postgres, memory)]
        assert one == other
        await check_journal(self.dsn)


@requirement("SX-38")
def test_postgresql_keeps_what_the_reference_does(dsn: str) -> None:
    """Two instances append to three turns, in batches, decided on what is there or on less."""
    with asyncio.Runner() as runner:
        # Nothing renews the leases, and the memory's instances live for ever: these must live as long as the test.
        options = JournalOptions(lease=timedelta(hours=1))
        opened = [runner.run(open_postgres_journal(dsn, InstanceId(name), options)) for name in ("one", "other")]
        both = TwoJournals(dsn, opened)

        @settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(batches)
        @example([(0, [(0, 0), (1, 0), (2, 0)])] * 9)
        @example([(who % 2, [(0, 0), (1, 0)]) for who in range(24)])  # they take everything from each other
        def tried(given: Sequence[tuple[int, Sequence[tuple[int, int]]]]) -> None:
            runner.run(both.tried(given))

        try:
            tried()
        finally:
            for journal in opened:
                runner.run(journal.close())
