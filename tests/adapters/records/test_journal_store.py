"""The store over a real SQLite file: batches, refusals, lost answers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.executing.records import Record
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.appends import TurnAppend
from sidecar.core.journal.entries import Draft
from sidecar.operations.record.journal_store import MOST_TURNS, MOST_WAITING
from sidecar.operations.record.ports import CommitUnknown
from tests.adapters.records.appending_rules import in_groups
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import a_dispatch, a_taking, a_whole_turn, an_end
from tests.support.recording.translation import drafts_of


class Gated(SqliteJournal):
    """Lets no commit begin before it is `open`; then some of their answers can be lost, kept or not.

    Attributes:
        began: set while a commit waits.
        lose: whether the next commits were `kept` before their answer got lost; taken one by one.
        commits: the turns of each.
    """

    def __init__(self, *parts: Any) -> None:
        """Begin open."""
        super().__init__(*parts)
        self.gate = asyncio.Event()
        self.gate.set()
        self.began = asyncio.Event()
        self.lose: list[bool] = []
        self.commits: list[list[str]] = []

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Commit."""
        self.began.set()
        await self.gate.wait()
        self.commits.append([each.turn_id for each in appends])
        lost, kept = bool(self.lose), not self.lose or self.lose.pop(0)
        answers: Sequence[bool] = await super().append(appends) if kept else ()
        if lost:
            raise CommitUnknown("as it happens")
        return answers


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[OpenedRecord, Gated]]:
    """Give a store over a fresh file, and the journal below it."""
    journal = await Gated.open(path / "record.sqlite", InstanceId("one"), lambda doing, error: None)
    assert isinstance(journal, Gated)
    try:
        yield OpenedRecord(journal), journal
    finally:
        journal.gate.set()
        await journal.close()


def _appending(store: OpenedRecord, *groups: Sequence[Draft | Record]) -> list["asyncio.Task[None]"]:
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
        assert database.commits == [["first"], [f"turn-{number}" for number in range(20)]]
        assert len((await store.turns(TurnQuery())).rows) == 21


def _note(decided: list[int], number: int, _: object) -> None:
    decided.append(number)


async def test_appends_are_decided_in_their_order(tmp_path: Path) -> None:
    """A turn in five appends at once: each follows the one before it, and they share a commit."""
    async with opened(tmp_path) as (store, database):
        groups, decided = in_groups(a_whole_turn()), list[int]()
        tasks = _appending(store, *groups)
        for number, task in enumerate(tasks):
            task.add_done_callback(partial(_note, decided, number))
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)
        assert decided == list(range(len(groups)))
        assert database.commits == [["turn-1"]]


async def test_a_refused_group_does_not_take_others_along(tmp_path: Path) -> None:
    """One in the middle of a batch contradicts the record: its caller alone hears of it, nothing of it is kept."""
    async with opened(tmp_path) as (store, database):
        database.gate.clear()
        first = _appending(store, a_whole_turn("first"))
        await database.began.wait()
        wrong: list[Record] = [a_dispatch("half"), a_taking(a_dispatch("half", "unknown"))]
        tasks = _appending(store, a_whole_turn("before"), wrong, a_whole_turn("behind"))
        await asyncio.sleep(0)
        database.gate.set()
        results = await asyncio.gather(*first, *tasks, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), type(None), RecordConflict, type(None)]
        assert sorted(row.turn_id for row in (await store.turns(TurnQuery())).rows) == ["before", "behind", "first"]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
async def test_a_commit_whose_answer_was_lost_is_made_again_and_never_doubled(tmp_path: Path, kept: bool) -> None:
    """Once: the caller does not notice. Twice: if the record does not have it, the caller is told."""
    async with opened(tmp_path) as (store, database):
        database.lose = [kept]
        await store.append(a_whole_turn("once"))
        database.lose = [kept, kept]
        if kept:  # the record has it, when it is read again: nothing is to be committed a second time
            await store.append(a_whole_turn("twice"))
        else:
            with pytest.raises(StoreUnavailable, match="the result of a commit is unknown"):
                await store.append(a_whole_turn("twice"))
        database.lose = []
        await store.append(a_whole_turn("twice"))
        assert len((await store.turns(TurnQuery())).rows) == 2
        (root,) = await database.roots()
        assert root.number == 2 * len((await database.facts(TurnId("once"))).facts)


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
        (first,) = _appending(store, an_end())
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
        (first,) = _appending(store, an_end(turn="first"))
        await database.began.wait()
        second = drafts_of(an_end(turn="second"), store.instance)
        waiting = _appending(store, *([second] * MOST_WAITING))  # the same again and again: one fact, each waits
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="records wait to be written already"):
            await store.append(an_end(turn="third"))
        database.gate.set()
        await asyncio.gather(first, *waiting)
        assert sorted(row.turn_id for row in (await store.turns(TurnQuery())).rows) == ["first", "second"]


async def test_a_turn_that_has_gone_from_memory_is_read_again(tmp_path: Path) -> None:
    """So many other turns came in between that it is not in memory any more: its next group follows all the same."""
    async with opened(tmp_path) as (store, _):
        first, *rest = in_groups(a_whole_turn("long"))
        await store.append(first)
        await asyncio.gather(*_appending(store, *([a_dispatch(f"turn-{number}")] for number in range(MOST_TURNS))))
        for group in rest:
            await store.append(group)
        turn = await store.turn(TurnId("long"))
        assert turn is not None
        assert turn.ended is not None


async def test_the_groups_of_a_turn_behind_a_refused_one_are_decided_on_what_is_kept(tmp_path: Path) -> None:
    """In one batch: what is refused has left no trace in memory either."""
    async with opened(tmp_path) as (store, database):
        opening, attempts, *_ = in_groups(a_whole_turn())
        await store.append(opening)
        database.gate.clear()
        first = _appending(store, a_whole_turn("first"))
        await asyncio.sleep(0)
        wrong: list[Record] = [*attempts, a_taking(a_dispatch(), 2)]
        tasks = _appending(store, wrong, attempts)
        await asyncio.sleep(0)
        database.gate.set()
        results = await asyncio.gather(*first, *tasks, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), RecordConflict, type(None)]
        turn = await store.turn(TurnId("turn-1"))
        assert turn is not None
        assert [len(child.events) for child in turn.children] == [3]
        assert turn.dispatches[0].epoch == 0
