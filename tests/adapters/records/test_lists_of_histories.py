"""Whatever happens in whatever order, lists show what the facts say: that, or as of when they do."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from datetime import UTC, date, timedelta
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.adapters.record_memory import JournalContents, MemoryJournal
from sidecar.adapters.record_sqlite import SqliteJournal, SqliteProjection, record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, TurnQuery, TurnRow, TurnState
from sidecar.core.identifiers import DefinitionId, EpisodeId, InstanceId, Principal, Slot, TurnId
from sidecar.core.journal.appends import TurnAppend, TurnIndex
from sidecar.core.journal.encoding import erased
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.heads import TurnHead
from sidecar.core.journal.markers import FactsRemoved, erasure_of
from sidecar.core.listing.changes import Watermarks
from sidecar.core.listing.turn_rows import Newer, TurnLine, turn_line
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.operations.record import lists, projector
from sidecar.operations.record.lists import TurnListReader
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projection_ports import Projection
from sidecar.operations.record.projector import Projector, ProjectorTiming
from tests.support.journal_drafts import BEGIN
from tests.support.second_place import a_signer
from tests.unit.journal.lives import Life

HERE = InstanceId("here")
STEPS = 120
EPISODES = (EpisodeId("episode-1"), EpisodeId("episode-2"))
SMALL_TAIL = 4
QUERIES = (
    TurnQuery(limit=1000),
    TurnQuery(limit=3),
    TurnQuery(state=TurnState.OPEN, limit=1000),
    TurnQuery(slot=Slot("shop"), limit=5),
    TurnQuery(slot=Slot("rewards"), state=TurnState.ENDED, limit=1000),
    TurnQuery(before=(BEGIN + timedelta(days=1), TurnId("")), limit=4),
    TurnQuery(outcome=Outcome.SUCCEEDED, limit=5),
    TurnQuery(outcome=Outcome.FAILED, definition=DefinitionId("shop"), limit=1000),
    TurnQuery(since=BEGIN + timedelta(hours=1), until=BEGIN + timedelta(days=2), limit=1000),
)


class Flaky:
    """A projection that fails when it is told to: before it keeps anything, or when it has."""

    def __init__(self, kept: Projection, chance: Random) -> None:
        self.kept = kept
        self.fails = 0.0
        self._chance = chance

    async def mine(self) -> Sequence[str] | None:
        """Ask."""
        return await self.kept.mine()

    async def watermarks(self) -> Watermarks:
        """Ask."""
        return await self.kept.watermarks()

    async def apply(
        self, lines: Sequence[TurnLine], reached: Watermarks, days: Sequence[date] = (), gone: Sequence[TurnId] = ()
    ) -> None:
        """Keep, or fail."""
        if self._chance.random() < self.fails:
            raise StoreUnavailable("before", retry_after=timedelta(0))
        await self.kept.apply(lines, reached, days, gone)
        if self._chance.random() < self.fails:
            raise StoreUnavailable("afterwards", retry_after=timedelta(0))

    async def clear(self) -> None:
        """Forget."""
        await self.kept.clear()

    async def versions(self, turn_ids: Sequence[TurnId]) -> Mapping[TurnId, int]:
        """Ask."""
        return await self.kept.versions(turn_ids)

    async def turns(self, query: TurnQuery, newer: Newer) -> Sequence[TurnRow]:
        """Ask."""
        return await self.kept.turns(query, newer)

    async def episodes(self, limit: int, newer: Newer, before: EpisodeMark | None = None) -> Sequence[EpisodeRow]:
        """Ask."""
        return await self.kept.episodes(limit, newer, before)


class InMemory:
    """A journal and its lists in memory."""

    def __init__(self) -> None:
        self._contents = JournalContents()
        self.journal: Journal = MemoryJournal(self._contents, HERE)

    async def projection(self) -> Projection:
        """Return the rows as the next process finds them."""
        return self._contents.rows

    async def close(self) -> None:
        """Do nothing."""


class InFiles:
    """A journal and its lists in files."""

    def __init__(self, folder: Path, engine: SqliteEngine) -> None:
        self._path = folder / "record.sqlite"
        self._engine = engine
        self.journal: Journal = SqliteJournal(engine, HERE)
        self._projection: SqliteProjection | None = None

    @classmethod
    async def opened(cls, folder: Path) -> "InFiles":
        """Open an empty record."""
        made = cls(folder, await SqliteEngine.open(folder / "record.sqlite", record_schema(), _unexpected))
        await made.journal.begin()  # type: ignore[attr-defined]  # of SqliteJournal
        return made

    async def projection(self) -> Projection:
        """Return the rows as the next process finds them."""
        if self._projection is not None:
            await self._projection.close()
        self._projection = SqliteProjection(self._path, _unexpected)
        return self._projection

    async def close(self) -> None:
        """Close both files."""
        if self._projection is not None:
            await self._projection.close()
        await self._engine.close()


class History:
    """What happens to a record and to its projector, drawn; and what the facts say meanwhile."""

    def __init__(self, seed: int, place: InMemory | InFiles, made: Any = projector, read: Any = lists) -> None:
        self._made, self._read = made, read
        self.chance = Random(seed)
        self.place = place
        self.facts: dict[TurnId, list[Stored]] = {}
        self._to_come: dict[TurnId, list[Stored]] = {}
        self._days = [0, 1, 2]
        self._begun = self._removed = 0
        self.seen = set[str]()

    async def begin(self) -> None:
        """Start a process: nothing is left of the one before but what is kept."""
        self.projection = Flaky(await self.place.projection(), self.chance)
        recorder = MeasuringRecorder(Metrics())
        timing = ProjectorTiming(between=0)
        self.projector: Projector = self._made.Projector(self.place.journal, self.projection, recorder, timing)
        most = self.chance.choice((SMALL_TAIL, 10_000))
        self.lists: TurnListReader = self._read.TurnListReader(self.projector, most_changes=most)

    async def play(self) -> None:
        """Let things happen, and look at lists."""
        await self.begin()
        happenings = (self.append, self.append, self.append, self.project, self.project, self.fail)
        rare = (self.begin, self.remove, self.erase, self.clear)
        for _ in range(STEPS):
            await self.chance.choice(rare if self.chance.random() < 0.15 else happenings)()
            if self.chance.random() < 0.5:
                await self.look()
        await self.projector.catch_up()
        assert await self.look() is None

    async def append(self) -> None:
        """Go on with a turn, or begin one."""
        self._begun += 1
        new = TurnId(f"turn-{self.chance.randint(1, 9)}-{self._begun}")
        turn_id = self.chance.choice([*self._to_come, new])
        if turn_id == new:
            self._to_come[turn_id] = self._whole(turn_id)
            self.facts[turn_id] = []
        coming, before = self._to_come[turn_id], self.facts[turn_id]
        facts = [coming.pop(0) for _ in range(self.chance.randint(1, len(coming)))]
        if not coming:
            del self._to_come[turn_id]
        day = (before or facts)[0].at.date()
        ended = None if coming else facts[-1].at
        index = TurnIndex(EpisodeId("e"), BEGIN + timedelta(days=9), ended, called=False)
        head = TurnHead(version=len(before) + len(facts), ended=not coming)
        (kept,) = await self.place.journal.append([TurnAppend(turn_id, day, len(before), head, index, tuple(facts))])
        assert kept
        before += facts
        self.projector.appended(len(facts))

    def _whole(self, turn_id: TurnId) -> list[Stored]:
        """Return a turn of one of the days that are not removed."""
        later = timedelta(days=self.chance.choice(self._days), milliseconds=self.chance.randint(0, 10_000))
        return [
            replace(fact.stored, turn_id=turn_id, by=HERE, at=fact.stored.at + later)
            for fact in Life(self.chance.randint(0, 10**6)).whole()
        ]

    async def project(self) -> None:
        """Let the projector take a pass."""
        await self.projector.step()

    async def fail(self) -> None:
        """Let it take passes that fail somewhere."""
        self.projection.fails = 0.4
        try:
            await self.projector.catch_up()
        except StoreUnavailable:
            self.seen.add("failure")
        self.projection.fails = 0.0

    async def remove(self) -> None:
        """Let retention remove the oldest day on which every turn has ended."""
        for root in await self.place.journal.removable(BEGIN + timedelta(days=99)):
            marker = FactsRemoved(root.instance, root.day, root.number, root.root, BEGIN, BEGIN, "key", "signature")
            await self.place.journal.remove([marker])
            for turn_id, facts in list(self.facts.items()):
                if facts[0].at.astimezone(UTC).date() == root.day:
                    del self.facts[turn_id]
            self._days.remove((root.day - BEGIN.date()).days)
            self._days.append(3 + self._removed)
            self._removed += 1
            self.seen.add("removal")
            return

    async def erase(self) -> None:
        """Erase the texts of one turn."""
        ended = [turn_id for turn_id in self.facts if turn_id not in self._to_come]
        if ended:
            turn_id = self.chance.choice(ended)
            turns = {turn_id: self.facts[turn_id]}
            marker_id = f"marker-{len(await self.place.journal.erasures())}"
            erasure = erasure_of(self.facts[turn_id][0].at.date(), turns, marker_id, BEGIN, a_signer())
            if erasure is not None:
                await self.place.journal.erase(erasure)
                self.facts[turn_id] = [erased(fact, marker_id) for fact in self.facts[turn_id]]
                self.seen.add("erasure")

    async def clear(self) -> None:
        """Begin the rows anew."""
        await self.projector.rebuild()

    async def look(self) -> object:
        """Compare lists with what the facts say; returns as of when they were."""
        now = {turn_id: turn_line(turn_id, facts).row for turn_id, facts in self.facts.items()}
        rows = sorted((row for row in now.values() if row), key=lambda row: (row.began_at, row.turn_id), reverse=True)
        for query in QUERIES:
            found = await self.lists.turns(query)
            if found.as_of is None:
                assert list(found.rows) == [row for row in rows if _wanted(row, query)][: query.limit], query
            else:
                self.seen.add("as of")
                self._check_as_of(found.rows)
        episodes = await self.lists.episodes(9)
        if episodes.as_of is None:
            assert sum(row.turns for row in episodes.rows) == len(rows)
            assert [(row.principal, row.last_at) for row in episodes.rows] == _last_uses(rows)
            self.seen.add("whole")
        return episodes.as_of

    def _check_as_of(self, rows: Sequence[TurnRow]) -> None:
        """Look whether each row is what the turn was some time: no user who was erased, no turn that is gone."""
        for row in rows:
            facts = self.facts[row.turn_id]
            assert row in [turn_line(row.turn_id, facts[:number]).row for number in range(1, len(facts) + 1)]


def _wanted(row: TurnRow, query: TurnQuery) -> bool:
    return (
        (query.state is None or row.state is query.state)
        and (query.slot is None or query.slot in row.slots)
        and (query.outcome is None or query.outcome in row.outcomes)
        and (query.definition is None or query.definition in row.definitions)
        and (query.since is None or row.began_at >= query.since)
        and (query.until is None or row.began_at < query.until)
        and (query.before is None or (row.began_at, row.turn_id) < query.before)
    )


def _last_uses(rows: Sequence[TurnRow]) -> list[tuple[Principal, object]]:
    last: dict[Principal, Any] = {}
    for row in rows:
        last.setdefault(row.principal, row.began_at)
    return sorted(last.items(), key=lambda each: (each[1], each[0]), reverse=True)


def _unexpected(doing: str, error: str) -> None:
    raise AssertionError(f"could not {doing}: {error}")


@pytest.mark.seconds(120)
async def test_lists_in_memory_show_what_the_facts_say() -> None:
    """Appends, passes, failures, starts, removals and erasures in any order; and all of that did happen."""
    seen = set[str]()
    for seed in range(20):
        history = History(seed, InMemory())
        await history.play()
        seen |= history.seen
    assert seen == {"failure", "removal", "erasure", "as of", "whole"}


@pytest.mark.seconds(120)
async def test_lists_in_files_show_what_the_facts_say(tmp_path: Path) -> None:
    """The same."""
    seen = set[str]()
    for seed in range(8):
        (tmp_path / str(seed)).mkdir()
        place = await InFiles.opened(tmp_path / str(seed))
        history = History(seed, place)
        try:
            await history.play()
        finally:
            await place.close()
        seen |= history.seen
        await asyncio.sleep(0)
    assert seen == {"failure", "removal", "erasure", "as of", "whole"}


DEFECTS = {
    "alterations are not looked for": (projector, "changes.reached.alterations != marks.alterations", "False"),
    "watermarks are kept before the rows": (
        projector,
        "await self.projection.apply([each.line() for each in readings], changes.reached)",
        "await self.projection.apply((), changes.reached)\n"
        "                await self.projection.apply([each.line() for each in readings], changes.reached)",
    ),
    "alterations are taken for done before they are": (
        projector,
        "await self.projection.apply((), marks, days)",
        "await self.projection.apply((), replace(marks, alterations=changes.reached.alterations), days)",
    ),
    "a list does not say that it is behind": (lists, "return newer, changes.as_of", "return newer, None"),
    "a list shows what is projected only": (lists, "return newer, changes.as_of", "return {}, changes.as_of"),
    "a list shows erased users until the next pass": (lists, "if is_altered:", "if False:"),
}
"""By name: where what stands, and what is planted there."""


def planted(module: ModuleType, there: str, defect: str) -> ModuleType:
    """Return a module with a defect."""
    source = inspect.getsource(module)
    assert source.count(there) == 1, there
    made = ModuleType(f"{module.__name__}_with_a_defect")
    exec(compile(source.replace(there, defect), made.__name__, "exec"), made.__dict__)
    return made


@pytest.mark.seconds(60)
@pytest.mark.parametrize("name", DEFECTS)
async def test_a_defect_is_found(name: str) -> None:
    """In one of the histories that are always played."""
    module, there, defect = DEFECTS[name]
    broken = planted(module, there, defect)
    made = {"made": broken} if module is projector else {"read": broken}

    async def play_all() -> None:
        for seed in range(20):
            await History(seed, InMemory(), **made).play()

    with pytest.raises(AssertionError):
        await play_all()
