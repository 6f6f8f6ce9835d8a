"""The SQL and the plain objects say the same to whatever is appended, by whomever, in whatever order."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sidecar.adapters.record_memory import MemoryDatabase
from sidecar.adapters.record_memory.contents import RecordInMemory
from sidecar.adapters.record_postgresql import PostgresRecord, open_postgres_record
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.chain import NOTHING, closed_root
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import DispatchTaken, Record
from sidecar.core.executing.stored_record import ClosedChild, StoredTurn, TurnQuery
from sidecar.core.identifiers import EpisodeId, InstanceId, TurnId
from sidecar.operations.record.ports import Database
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_routing,
    a_settling,
    a_taking,
    a_turn_end,
    an_attempt,
    an_outcome,
    moment,
    with_other_contents,
)
from tests.support.requirement import requirement

EXAMPLES = 30

# How a group is made of a turn's records: the next few in order; some of the last ones again; or any around there, some
# of them with other contents. One in eight groups is another instance's.
in_order = st.tuples(st.just("next"), st.integers(1, 9))
again = st.tuples(st.just("again"), st.integers(1, 12))
anyhow = st.tuples(st.just("any"), st.lists(st.tuples(st.integers(-14, 8), st.booleans()), min_size=1, max_size=4))
by_whom = st.integers(0, 7).map(lambda n: n == 7)
steps = st.lists(st.tuples(by_whom, st.one_of(in_order, in_order, again, anyhow)), min_size=2, max_size=14)


def one_turn(turn: str) -> list[Record]:
    """Return a turn with two dispatches, three children and takings, all in the order in which it happens."""
    episode: dict[str, Any] = {"episode_id": EpisodeId(f"of-{turn}")}
    first, second = a_dispatch(turn, calls=2, **episode), a_dispatch(turn, "dispatch-2", at=5, **episode)
    children = [a_child(first, 0), a_child(first, 1, "rewards"), a_child(second, 2)]
    lives = [a_life(child, 10 + child.step_idx, failed=child.step_idx == 1) for child in children]
    records: list[Record] = [first, *children[:2], *lives[0][:2], *lives[1][:2], an_attempt(children[0])]
    records += [a_settling(first, an_outcome("call-0")), a_taking(first), *lives[0][2:], *lives[1][2:]]
    records += [a_settling(first, an_outcome("call-1", 1), 3), a_settling(first, an_outcome("call-1", 1), 4, 1)]
    records += [
        second,
        children[2],
        *lives[2],
        _after_the_last(lives[2][-1]),
        a_taking(second),
        a_taking(first, 2),
        a_taking(first, 3),
    ]
    records += [a_settling(second, an_outcome("call-2", 2)), a_turn_end(turn, 20, **episode)]
    return [*records, a_routing(turn, ("shop", "rewards"), 20, **episode)]


def _after_the_last(closed: ChildEvent) -> ChildEvent:
    """Return an event that would follow, if anything could."""
    event_id = f"{closed.child_id}/{closed.sequence + 1}"
    return msgspec.structs.replace(
        closed, event_id=event_id, sequence=closed.sequence + 1, previous_link=closed.link, link="f" * 64
    )


def group_of(records: Sequence[Record], begun: int, step: tuple[str, Any]) -> list[Record]:
    """Return the group that a step stands for."""
    how, what = step
    if how == "next":
        return list(records[begun : begun + what])
    if how == "again":
        return list(records[max(0, begun - what) : begun])
    chosen = [(records[max(0, begun + offset) % len(records)], changed) for offset, changed in what]
    return [with_other_contents(record) if changed else record for record, changed in chosen]


def by(instance: int, group: Sequence[Record]) -> list[Record]:
    """Return a group as one instance makes it: no two take a dispatch at the same time."""
    return [
        msgspec.structs.replace(each, taken_at=moment(50 + instance)) if isinstance(each, DispatchTaken) else each
        for each in group
    ]


async def refused(database: Database, group: Sequence[Record]) -> bool:
    """Append a group; say whether it was refused."""
    try:
        await database.commit(group)
    except RecordConflict:
        return True
    return False


async def all_that_is_kept(database: Database, turn_id: TurnId) -> list[Any]:
    """Return whatever can be asked about one turn; who is alive is not the record's."""
    found = await database.turn(turn_id)
    turn = None if found is None else _without_liveness(found)
    episode = EpisodeId(f"of-{turn_id}")
    rows = [] if _nothing_but_a_routing(found) else list(await database.turns(TurnQuery(episode_id=episode)))
    called = await database.last_dispatching_turn(episode)
    return [turn, rows, called, list(await database.attempts(turn_id)), await database.routing_record(turn_id)]


def _without_liveness(turn: StoredTurn) -> StoredTurn:
    dispatches = tuple(
        msgspec.structs.replace(
            each, owner_alive=True, outcomes=tuple(sorted(each.outcomes, key=lambda outcome: outcome.call_id))
        )
        for each in turn.dispatches
    )
    return msgspec.structs.replace(turn, dispatches=dispatches)


def _nothing_but_a_routing(turn: StoredTurn | None) -> bool:
    """A turn of which nothing says when it began, which is in no list."""
    return turn is None or (not turn.dispatches and turn.ended is None)


class TwoRecords:
    """The same two instances, in PostgreSQL and in memory."""

    def __init__(self, postgres: Sequence[PostgresRecord]) -> None:
        self.postgres = postgres
        self.numbers = count(1)

    async def tried(self, steps: Sequence[tuple[bool, tuple[str, Any]]]) -> None:
        """Take the steps of one example, in a turn of its own."""
        turn_id = TurnId(f"turn-{next(self.numbers)}")
        contents, records, begun = RecordInMemory(), one_turn(turn_id), 0
        memory = [MemoryDatabase(contents, each.instance) for each in self.postgres]
        for other, step in steps:
            group = by(other, group_of(records, begun, step))
            begun += step[1] if step[0] == "next" else 0
            assert await refused(self.postgres[other], group) == await refused(memory[other], group), group
            assert await all_that_is_kept(self.postgres[0], turn_id) == await all_that_is_kept(memory[0], turn_id)
        assert await self._closed(turn_id) == sorted(link for links in contents.roots.values() for link in _bare(links))

    async def _closed(self, turn_id: TurnId) -> list[tuple[InstanceId, str, str]]:
        """Return what the running roots have of a turn; each root is that of the links up to it."""
        found, roots = [], {state.instance: state.root for state in await self.postgres[0].closed_states()}
        for instance, standing in roots.items():
            links, root = [link async for link in self.postgres[0].closed_children(instance)], NOTHING
            for link in links:
                root = closed_root(root, link.child_id, link.last_link)
                assert link.root == root
            assert standing == root
            found += _bare([link for link in links if link.child_id.startswith(f"{turn_id}-")])
        return sorted(found)


def _bare(links: Sequence[ClosedChild]) -> list[tuple[InstanceId, str, str]]:
    return [(link.instance, link.child_id, link.last_link) for link in links]


@requirement("SX-38")
def test_postgresql_refuses_and_keeps_what_the_reference_does(postgres_dsn: str) -> None:
    """Two instances append the records of a turn in and out of order, repeated, altered, to both."""
    with asyncio.Runner() as runner:
        opened = [runner.run(open_postgres_record(postgres_dsn, InstanceId(name))) for name in ("one", "other")]
        both = TwoRecords(opened)

        @settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(steps)
        @example([(False, ("next", 1)), (False, ("any", [(2, False), (0, False)]))])  # an event, then its child
        @example([*[(False, ("next", 9))] * 3, (False, ("next", 1))])  # an event after the last one
        def tried(steps: Sequence[tuple[bool, tuple[str, Any]]]) -> None:
            runner.run(both.tried(steps))

        try:
            tried()
        finally:
            for record in opened:
                runner.run(record.close())
