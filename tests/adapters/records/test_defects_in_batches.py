"""What no fact can hold, and what a database's adapter does not know of, costs nobody but who has brought it."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import apsw
import pytest

from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import DispatchId, InstanceId, TurnId
from sidecar.core.journal.appends import TurnAppend, TurnFacts
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import ChildNoted
from sidecar.core.journal.texts import EndTexts, Texts
from tests.adapters.records.appending_rules import in_groups
from tests.adapters.records.bench import OpenedRecord, Tasks
from tests.support.record_builders import a_dispatch, a_whole_turn

HALF: str = "\ud800"
"""Half a surrogate pair: a Python text that is not Unicode."""


class Strange(SqliteJournal):
    """Raises what no port names when it is to keep one turn; reads of another one wait.

    Attributes:
        unknown: the turn that it does not keep.
        waiting: the turn whose reads wait for ever; `waits_for` is set once one does.
    """

    def __init__(self, *parts: Any) -> None:
        """Begin without either."""
        super().__init__(*parts)
        self.unknown = self.waiting = ""
        self.waits_for = asyncio.Event()

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Keep what was decided, or raise."""
        if self.unknown in [each.turn_id for each in appends]:
            raise LookupError("as it happens")
        return await super().append(appends)

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn, or wait."""
        if turn_id == self.waiting:
            self.waits_for.set()
            await asyncio.Event().wait()
        return await super().facts(turn_id)


async def _opened(path: Path) -> tuple[OpenedRecord, Strange]:
    journal = await Strange.open(path / "record.sqlite", InstanceId("one"), lambda doing, error: None)
    assert isinstance(journal, Strange)
    return OpenedRecord(journal), journal


async def _at_once(store: OpenedRecord, *groups: Sequence[Draft | Record]) -> list[str]:
    """Append groups in one batch; return what became of each."""
    answers = await asyncio.gather(*map(store.append, groups), return_exceptions=True)
    return ["kept" if answer is None else type(answer).__name__ for answer in answers]


def _noted(store: OpenedRecord, turn: str, narration: str = "") -> list[Draft]:
    """Return a draft of a turn; the rules refuse it, unless it cannot be encoded."""
    body, texts = ChildNoted(DispatchId("d"), ()), Texts(end=EndTexts(narration=narration))
    return [store.draft(TurnId(turn), datetime.now(UTC), body, texts)]


async def test_a_group_that_no_fact_can_hold_fails_alone(tmp_path: Path) -> None:
    """Other turns of the batch are kept, and so are the groups before and behind it of its own turn."""
    store, journal = await _opened(tmp_path)
    first, second, *_ = in_groups(a_whole_turn("mixed"))
    groups: list[Sequence[Draft | Record]]
    mixed, alone = _noted(store, "mixed", HALF), _noted(store, "alone", HALF)
    groups = [[a_dispatch("before")], first, mixed, second, alone, a_whole_turn("behind")]
    outcomes = await _at_once(store, *groups)
    assert outcomes == ["kept", "kept", "StoreUnavailable", "kept", "StoreUnavailable", "kept"]
    assert await _at_once(store, [a_dispatch("before")], first, second) == ["kept"] * 3
    on_record = [turn_id async for turn_id in journal.turn_ids()]
    assert sorted(on_record) == ["before", "behind", "mixed"]
    await journal.close()


async def test_what_a_database_raises_that_no_port_names_fails_one_group(tmp_path: Path) -> None:
    """The writer finds out which one, and goes on."""
    store, journal = await _opened(tmp_path)
    journal.unknown = "strange"
    groups = [a_whole_turn(turn) for turn in ("before", "strange", "behind")]
    assert await _at_once(store, *groups) == ["kept", "StoreUnavailable", "kept"]
    journal.unknown = ""
    assert await _at_once(store, *groups) == ["kept"] * 3
    assert sorted([turn_id async for turn_id in journal.turn_ids()]) == ["before", "behind", "strange"]
    await journal.close()


async def test_what_was_decided_by_a_writer_that_is_stopped_is_not_taken_for_kept(tmp_path: Path) -> None:
    """It was decided about one turn, and another one was still read."""
    store, journal = await _opened(tmp_path)
    journal.waiting = "other"
    tasks = [asyncio.ensure_future(store.append(each)) for each in ([a_dispatch("a")], _noted(store, "other"))]
    await journal.waits_for.wait()
    spawner = store._spawner
    assert isinstance(spawner, Tasks)
    spawner.all[-1].cancel()
    for task in tasks:
        with pytest.raises(StoreUnavailable, match="the sidecar stops"):
            await task
    await store.append([a_dispatch("a")])
    assert (await journal.facts(TurnId("a"))).facts
    await journal.close()


async def test_a_commit_whose_writer_is_stopped_is_kept_as_it_was_decided(tmp_path: Path) -> None:
    """The thread is in the middle of it: what it knows of the end of the journal must stay what it is until then."""
    store, journal = await _opened(tmp_path)
    await store.append([a_dispatch("before")])
    inserts, goes_on = Event(), Event()

    def trace(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
        if statement.startswith("INSERT INTO turns") and not inserts.is_set():
            inserts.set()
            goes_on.wait(10)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    await journal.engine.write(watch)
    task = asyncio.ensure_future(store.append([a_dispatch("a")]))
    await asyncio.to_thread(inserts.wait, 10)
    spawner = store._spawner
    assert isinstance(spawner, Tasks)
    spawner.all[-1].cancel()
    with pytest.raises(StoreUnavailable, match="the sidecar stops"):
        await task
    goes_on.set()
    await store.append([a_dispatch("behind")])
    for turn in ("before", "a", "behind"):
        assert len((await journal.facts(TurnId(turn))).facts) == 1
    (root,) = await journal.roots()
    assert (root.instance, root.number) == ("one", 3)
    await journal.close()
