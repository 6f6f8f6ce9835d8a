"""Group commit over a real SQLite file."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sidecar.operations.record.group_commit import MOST_WAITING, GroupCommitStore

from sidecar.adapters.record_sqlite import SqliteRecord
from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.executing.records import Record
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.operations.record.ports import CommitUnknown
from tests.support.record_builders import a_dispatch, a_taking, a_turn_end, a_whole_turn


class Gated(SqliteRecord):
    """Lets no commit begin before it is `open`; then some of their answers can be lost, kept or not.

    Attributes:
        began: set while a commit waits.
        lose: whether the next commits were `kept` before their answer got lost; taken one by one.
    """

    def __init__(self, *parts: Any) -> None:
        """Begin open."""
        super().__init__(*parts)
        self.gate = asyncio.Event()
        self.gate.set()
        self.began = asyncio.Event()
        self.lose: list[bool] = []
        self.groups: list[int] = []

    async def commit(self, records: Sequence[Record]) -> None:
        """Commit."""
        self.began.set()
        await self.gate.wait()
        self.groups.append(len(records))
        lost, kept = bool(self.lose), not self.lose or self.lose.pop(0)
        if kept:
            await super().commit(records)
        if lost:
            raise CommitUnknown("as it happens")


class Tasks:
    """Spawns plain tasks."""

    def __init__(self) -> None:
        """Begin with none."""
        self.all: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run it."""
        self.all.append(asyncio.ensure_future(work))
        return self.all[-1]


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[GroupCommitStore, Gated]]:
    """Give a store over a fresh file, and the database below it."""
    database = await Gated.open(path / "record.sqlite", InstanceId("one"), lambda doing, error: None)
    assert isinstance(database, Gated)
    try:
        yield GroupCommitStore(database, Tasks(), MeasuringRecorder(Metrics())), database
    finally:
        database.gate.set()
        await database.close()


def _appending(store: GroupCommitStore, *groups: Sequence[Record]) -> list["asyncio.Task[None]"]:
    return [asyncio.ensure_future(store.append(group)) for group in groups]


async def test_what_comes_while_a_commit_runs_shares_the_next(tmp_path: Path) -> None:
    """Twenty appends behind a running one: two commits."""
    async with opened(tmp_path) as (store, database):
        database.gate.clear()
        first = _appending(store, a_whole_turn("first"))
        await database.began.wait()
        others = _appending(store, *(a_whole_turn(f"turn-{number}") for number in range(20)))
        await asyncio.sleep(0)
        database.gate.set()
        await asyncio.gather(*first, *others)
        assert database.groups == [len(a_whole_turn()), 20 * len(a_whole_turn())]
        assert len(await store.turns(TurnQuery())) == 21


def _note(decided: list[int], number: int, _: object) -> None:
    decided.append(number)


async def test_appends_are_decided_in_their_order(tmp_path: Path) -> None:
    """Events of one child in ten appends at once: each follows the one before it."""
    async with opened(tmp_path) as (store, _):
        records, decided = a_whole_turn(), list[int]()
        tasks = _appending(store, *([record] for record in records))
        for number, task in enumerate(tasks):
            task.add_done_callback(partial(_note, decided, number))
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)
        assert decided == list(range(len(records)))


async def test_a_refused_group_does_not_take_others_along(tmp_path: Path) -> None:
    """One in the middle of a batch contradicts the record: its caller alone hears of it, nothing of it is kept."""
    async with opened(tmp_path) as (store, database):
        database.gate.clear()
        first = _appending(store, a_whole_turn("first"))
        await database.began.wait()
        wrong: list[Record] = [a_dispatch("half"), a_taking(a_dispatch("unknown"))]
        tasks = _appending(store, a_whole_turn("before"), wrong, a_whole_turn("behind"))
        await asyncio.sleep(0)
        database.gate.set()
        results = await asyncio.gather(*first, *tasks, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), type(None), RecordConflict, type(None)]
        assert sorted(row.turn_id for row in await store.turns(TurnQuery())) == ["before", "behind", "first"]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
async def test_a_commit_whose_answer_was_lost_is_made_again_and_never_doubled(tmp_path: Path, kept: bool) -> None:
    """Once: the caller does not notice. Twice: it is told that nobody knows, and appends the same again."""
    async with opened(tmp_path) as (store, database):
        database.lose = [kept]
        await store.append(a_whole_turn("once"))
        database.lose = [kept, kept]
        with pytest.raises(StoreUnavailable, match="nobody can say whether it is kept"):
            await store.append(a_whole_turn("twice"))
        await store.append(a_whole_turn("twice"))
        assert len(await store.turns(TurnQuery())) == 2
        assert [link.number async for link in database.closed_children(database.instance)] == [1, 2]


async def test_a_caller_that_leaves_stops_no_commit(tmp_path: Path) -> None:
    """Its group is appended all the same, and the others' in the batch."""
    async with opened(tmp_path) as (store, database):
        database.gate.clear()
        first = _appending(store, a_whole_turn("first"))
        await database.began.wait()
        leaving, staying = _appending(store, a_whole_turn("leaving"), a_whole_turn("staying"))
        await asyncio.sleep(0)
        leaving.cancel()
        database.gate.set()
        await asyncio.gather(*first, staying)
        assert leaving.cancelled()
        assert await store.turn(TurnId("leaving")) is not None


async def test_an_append_of_nothing_waits_for_all_before_it(tmp_path: Path) -> None:
    """Whoever flushes knows that everything handed over is decided."""
    async with opened(tmp_path) as (store, database):
        database.gate.clear()
        (first,) = _appending(store, [a_turn_end()])
        await database.began.wait()
        (flush,) = _appending(store, [])
        await asyncio.sleep(0)
        assert not flush.done()
        database.gate.set()
        await flush
        assert first.done()


async def test_too_much_waiting_is_refused_at_once(tmp_path: Path) -> None:
    """What waits already is appended."""
    async with opened(tmp_path) as (store, database):
        database.gate.clear()
        (first,) = _appending(store, [a_turn_end("first")])
        await database.began.wait()
        (waiting,) = _appending(store, [a_turn_end("second")] * MOST_WAITING)
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="records wait to be written already"):
            await store.append([a_turn_end("third")])
        database.gate.set()
        await asyncio.gather(first, waiting)
        assert sorted(row.turn_id for row in await store.turns(TurnQuery())) == ["first", "second"]
