"""The projector: what wakes it, what it waits for, what it gives way to, and what it does when something is away."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.adapters.record_memory import JournalContents, MemoryJournal
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.listing.changes import Changes, Watermarks
from sidecar.operations.record.lists import TurnListReader
from sidecar.operations.record.projector import FACTS_OF_A_PASS, TURNS_IN_A_ROW, Projector, ProjectorTiming
from sidecar.operations.record.rows_in_memory import RowsInMemory
from tests.support.record_builders import a_dispatch, an_end
from tests.support.recording.translation import MemoryStoreOfRecords

AT_ONCE = ProjectorTiming(gather=0, between=0, poll=3600, again=0)


class WatchedJournal(MemoryJournal):
    """A journal that counts how often it is asked for changes, and may be away."""

    asked = 0
    away = False

    async def changed(self, after: Watermarks, limit: int, only: Sequence[str] | None = None) -> Changes:
        """Return what has changed, or fail."""
        self.asked += 1
        if self.away:
            raise StoreUnavailable("the journal is away", retry_after=timedelta(seconds=1))
        return await super().changed(after, limit, only)


class Anomalies:
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def anomaly(self, kind: str, detail: str, about: Any = None) -> None:
        """Keep the kind."""
        self.kinds.append(kind)


class Bench:
    """A store in memory, and a projector beside it that projects for itself."""

    def __init__(self, timing: ProjectorTiming = AT_ONCE, *, shared: bool = False) -> None:
        self.contents = JournalContents()
        self.store = MemoryStoreOfRecords(self.contents)
        self.journal = WatchedJournal(self.contents, InstanceId("this"), (lambda _: True) if shared else None)
        self.rows, self.anomalies = RowsInMemory(), Anomalies()
        recorder: Any = self.anomalies
        self.projector = Projector(self.journal, self.rows, recorder, timing)
        self.lists = TurnListReader(self.projector)

    async def turns(self, *turns: str) -> None:
        """Put turns on record, one fact each."""
        for turn in turns:
            await self.store.append([a_dispatch(turn)])
            self.lists.appended(1)

    def projected(self) -> list[str]:
        """Return the turns that have lines."""
        return sorted(self.rows.lines)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a loop as long as the block is in it; what it raises fails the test."""
    task = asyncio.ensure_future(work)
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def idle() -> None:
    """Let everything that is ready run."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_an_append_wakes_it_and_nothing_else_does() -> None:
    """What was there is projected first; while nothing comes, nobody is asked for anything."""
    bench = Bench()
    await bench.turns("a")
    async with running(bench.projector.run()):
        await idle()
        assert bench.projected() == ["a"]
        asked = bench.journal.asked
        await idle()
        assert bench.journal.asked == asked

        await bench.turns("b")
        await idle()

        assert bench.projected() == ["a", "b"]
        assert bench.projector.lag == 0


async def test_what_others_append_to_a_shared_journal_is_looked_for() -> None:
    """There is no word of it; the poll is as short as can be here."""
    bench = Bench(ProjectorTiming(gather=0, between=0, poll=0, again=0), shared=True)
    async with running(bench.projector.run()):
        await idle()
        await bench.store.append([a_dispatch("of another")])
        await idle()
        assert bench.projected() == ["of another"]


async def test_a_pass_takes_few_facts_and_others_get_their_turn() -> None:
    """A long way back is gone in passes; within one, whatever waits runs every few turns."""
    bench = Bench()
    await bench.turns(*(f"t{number:03}" for number in range(2 * FACTS_OF_A_PASS + 1)))
    passes, turns_of_others = 0, 0

    async def another() -> None:
        nonlocal turns_of_others
        while True:
            await asyncio.sleep(0)
            turns_of_others += 1

    async with running(another()):
        while await bench.projector.step():
            passes += 1
            assert bench.projector.projected == passes * FACTS_OF_A_PASS
    assert passes == 2
    assert turns_of_others >= FACTS_OF_A_PASS // TURNS_IN_A_ROW


async def test_the_lag_is_what_the_lists_do_not_have() -> None:
    """It grows with every append, also while nothing can be projected, and is gone afterwards."""
    bench = Bench()
    bench.journal.away = True
    await bench.turns("a", "b")
    with pytest.raises(StoreUnavailable):
        await bench.projector.step()
    assert bench.projector.lag == 2
    bench.journal.away = False
    await bench.projector.catch_up()
    assert bench.projector.lag == 0


async def test_a_journal_that_is_away_is_asked_again_and_reported_once() -> None:
    """Once for each time that it was away."""
    bench = Bench()
    async with running(bench.projector.run()):
        for number in (1, 2):
            bench.journal.away = True
            await bench.turns(f"t{number}")
            await idle()
            assert bench.anomalies.kinds == ["projection_waits"] * number
            bench.journal.away = False
            await idle()
            assert len(bench.projected()) == number


async def test_a_turn_that_cannot_be_read_holds_up_no_other() -> None:
    """It is left out, and reported once: its facts are of a newer format, or broken."""
    bench = Bench()
    await bench.turns("a", "broken", "c")
    kept = bench.contents.turns[TurnId("broken")]
    kept.facts[:] = [replace(fact, body=b"\xc1") for fact in kept.facts]
    await bench.projector.catch_up()
    assert bench.projected() == ["a", "c"]
    found = (await bench.lists.turns(TurnQuery())).rows
    assert sorted(row.turn_id for row in found) == ["a", "c"]
    await bench.projector.rebuild()
    await bench.projector.catch_up()
    assert bench.anomalies.kinds == ["turn_not_listed"]


async def test_a_list_in_memory_projects_by_itself_what_has_changed() -> None:
    """No loop runs there; more than one list takes in is no limit."""
    store = MemoryStoreOfRecords()
    turns = [f"t{number:03}" for number in range(1000)]
    for turn in turns:
        await store.append([a_dispatch(turn)])
    assert store.contents.rows.lines == {}
    found = await store.turns(TurnQuery(limit=10_000))
    assert (len(found.rows), found.as_of) == (1000, None)
    await store.append(an_end([a_dispatch("t000")], turn="t000"))
    (row,) = [row for row in (await store.turns(TurnQuery(limit=10_000))).rows if row.turn_id == "t000"]
    assert row.ended_at is not None


async def test_a_turn_that_memory_forgets_leaves_no_line() -> None:
    """The newest turns are kept, and so are their lines, also of a turn that goes while it is read."""
    store = MemoryStoreOfRecords(JournalContents(kept=3))
    for number in range(6):
        await store.append([a_dispatch(f"t{number}", at=number)])
        shown: Sequence[Any] = (await store.turns(TurnQuery())).rows
    assert [row.turn_id for row in shown] == ["t5", "t4", "t3"]
    assert sorted(store.contents.rows.lines) == ["t3", "t4", "t5"]
