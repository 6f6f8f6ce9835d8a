"""SQLite against the reference: the same groups by two instances, refused or kept alike, and read back alike."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.adapters.record_memory import MemoryDatabase, RecordInMemory
from sidecar.adapters.record_sqlite import SqliteRecord, record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.records import Record
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.operations.record.ports import Database
from tests.support.record_builders import (
    a_dispatch,
    a_life,
    a_taking,
    a_whole_turn,
    moment,
    with_other_contents,
)

TURNS = ("turn-0", "turn-1", "turn-2")
INSTANCES = (InstanceId("one"), InstanceId("two"))
WHOLE = {turn: a_whole_turn(turn, ("shop", "rewards"), at=10 * at) for at, turn in enumerate(TURNS)}
LENGTH = len(WHOLE["turn-0"])

# Where the records of a turn are begun and how many come, by whom; most begin where the last group ended.
slices = st.tuples(st.just("slice"), st.sampled_from(TURNS), st.integers(0, LENGTH), st.integers(1, 9))
nexts = st.tuples(st.just("next"), st.sampled_from(TURNS), st.just(0), st.integers(1, 9))
others = st.tuples(st.just("other"), st.sampled_from(TURNS), st.integers(0, LENGTH - 1), st.just(1))
takes = st.tuples(st.just("take"), st.sampled_from(TURNS), st.integers(1, 3), st.just(1))
steps = st.lists(st.tuples(st.sampled_from((0, 0, 0, 1)), nexts | nexts | nexts | slices | others | takes), max_size=25)


@settings(max_examples=40)
@given(steps)
def test_sqlite_does_what_the_reference_does(taken: list[tuple[int, tuple[str, str, int, int]]]) -> None:
    """Groups anywhere in a turn, again, changed, by another instance; dispatches taken by turns."""
    asyncio.run(_compare(taken))


async def _compare(taken: list[tuple[int, tuple[str, str, int, int]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = await SqliteEngine.open(Path(folder) / "record", record_schema(), lambda doing, error: None)
        contents = RecordInMemory()
        pairs = [(SqliteRecord(engine, name), MemoryDatabase(contents, name, name.__eq__)) for name in INSTANCES]
        try:
            for sqlite, _ in pairs:
                await sqlite.begin()
            reached = dict.fromkeys(TURNS, 0)
            for who, step in taken:
                group = _group(step, reached)
                results = [await _committed(each, group) for each in pairs[who]]
                if results[0] == "kept" and step[0] == "next":
                    reached[step[1]] += len(group)
                assert results[0] == results[1]
            for sqlite, memory in pairs:
                assert await _everything(sqlite) == await _everything(memory)
        finally:
            await engine.close()


def _group(step: tuple[str, str, int, int], reached: dict[str, int]) -> Sequence[Record]:
    kind, turn, at, size = step
    if kind == "take":
        return [a_taking(a_dispatch(turn), at), *a_life(_child(turn))[:1]]
    if kind == "other":
        return [with_other_contents(WHOLE[turn][at])]
    begin = reached[turn] if kind == "next" else at
    return WHOLE[turn][begin : begin + size]


def _child(turn: str) -> Any:
    return WHOLE[turn][1]


async def _committed(database: Database, group: Sequence[Record]) -> str:
    try:
        await database.commit(group)
    except RecordConflict:
        return "refused"
    return "kept"


async def _everything(database: Database) -> list[object]:
    """Read all; what the reference has in order of append, not of time, is sorted, or left to the suite."""
    found: list[object] = []
    for turn_id in map(TurnId, TURNS):
        turn = await database.turn(turn_id)
        found += [turn, list(await database.attempts(turn_id)), await database.routing_record(turn_id)]
        if turn is not None:
            found += [list(await database.child_events(child.opened.child_id)) for child in turn.children]
    found += [list(await database.closed_states()), sorted(await database.left_behind(9))]
    for instance in INSTANCES:
        found += [[link async for link in database.closed_children(instance)]]
    if not any([await _only_routed(database, TurnId(turn)) for turn in TURNS]):
        found += [list(await database.turns(TurnQuery())), list(await database.episodes(9))]
    found += [sorted(await database.overdue_turns(moment(at), 9)) for at in (0, 905, 915, 2000)]
    found += [list(await database.purgeable(moment(at))) for at in (0, 5, 15, 2000)]
    return found


async def _only_routed(database: Database, turn_id: TurnId) -> bool:
    """Whether nothing says when a turn began: the reference cannot list such a turn."""
    turn = await database.turn(turn_id)
    return turn is not None and not turn.dispatches and turn.ended is None
