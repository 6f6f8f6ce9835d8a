"""The record of a made-up world: durable in memory, behind a database that is slow, refuses, or loses its answers.

The store itself is the real one, `JournalStore`. What was kept stays kept whatever becomes of the processes; a list
says when each record was, and by whom.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Final

from sidecar.adapters.record_memory import JournalContents, MemoryJournal
from sidecar.adapters.record_memory.store import records_in
from sidecar.adapters.virtual_time import Trace, VirtualLoop
from sidecar.core.errors import RecordConflict, StoreUnavailable, SubagentsError
from sidecar.core.executing.records import ChildOpened, Record
from sidecar.core.identifiers import DispatchId, EpisodeId, InstanceId, TurnId
from sidecar.core.journal.appends import TurnAppend, TurnFacts
from sidecar.core.journal.encoding import SALT_BYTES
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.turn_state import TurnState
from sidecar.operations.ports import Recorder, Spawner
from sidecar.operations.record.journal_reads import attempts_of
from sidecar.operations.record.journal_store import JournalStore
from sidecar.operations.record.ports import CommitUnknown

ALONE: Final = InstanceId("alone")


@dataclass(frozen=True, slots=True)
class StoreFaults:
    """How often, as a share of the commits, or of the reads.

    Attributes:
        forgets_to_answer: it is kept, and nobody can say so; half the time asking again does not help.
        hangs: the same, and it takes seconds to find out; now and then it was not kept.
        full: spans of time in which every commit is refused, while reads go on.
    """

    refuses: float = 0.0
    forgets_to_answer: float = 0.0
    hangs: float = 0.0
    slow: float = 0.0
    slow_reads: float = 0.0
    full: tuple[tuple[float, float], ...] = ()


@dataclass(slots=True)
class Kept:
    """One record at the moment it became durable."""

    at: float
    instance: InstanceId
    record: Record


@dataclass(slots=True)
class Append:
    """One request to append.

    Attributes:
        answered_at: None while it is not answered, and if its process died before or did not wait any longer.
        over_at: when it was answered, or not waited for any longer.
    """

    instance: InstanceId
    drafts: Sequence[Draft]
    said: Mapping[bytes, Sequence[Record]]
    submitted_at: float
    answered_at: float | None = None
    over_at: float = float("inf")
    refused: SubagentsError | None = None

    @property
    def records(self) -> list[Record]:
        """What was appended: of a draft, what its fact says once it is kept, and nothing before."""
        return [record for each in self.drafts for record in self.said.get(each.salt, ())]

    @property
    def ids(self) -> list[str]:
        """What was appended, by id: the salt of a draft."""
        return [each.salt.hex() for each in self.drafts]

    @property
    def turn_ids(self) -> set[str]:
        """Of which turn."""
        return {each.turn_id for each in self.drafts}


@dataclass(slots=True)
class Disk:
    """What outlives every process, and what was asked of it.

    Attributes:
        journal: what the facts say that were kept, in order.
        turns: each turn after the facts that were kept.
        said: what the facts of each turn say.
        children: rows of those that are on record.
        kept: what the facts say, by id, as it was when they were kept.
        drawn: how many salts were given.
    """

    trace: Trace
    contents: JournalContents = field(default_factory=JournalContents)
    journal: list[Kept] = field(default_factory=list)
    durable_at: dict[str, float] = field(default_factory=dict)
    appends: list[Append] = field(default_factory=list)
    turns: dict[TurnId, TurnState] = field(default_factory=dict)
    said: dict[TurnId, list[Record]] = field(default_factory=dict)
    said_by: dict[bytes, Sequence[Record]] = field(default_factory=dict)
    children: dict[str, ChildOpened] = field(default_factory=dict)
    kept: dict[str, Record] = field(default_factory=dict)
    healthy: bool = False
    drawn: int = 0

    @property
    def records(self) -> Mapping[str, Record]:
        """Everything that the facts say which are there now, by id."""
        return {record.record_id: record for record in records_in(self.contents)}

    def heal(self) -> None:
        """Work well from now on."""
        self.healthy = True

    def salt(self) -> bytes:
        """Return bytes that no other fact has."""
        self.drawn += 1
        return self.drawn.to_bytes(SALT_BYTES, "big")

    def keep(self, append: TurnAppend, instance: InstanceId, now: float) -> bool:
        """Make facts durable, unless their turn has others."""
        if not self.contents.append(append):
            return False
        turn = self.turns.setdefault(append.turn_id, TurnState(append.turn_id))
        said = self.said.setdefault(append.turn_id, [])
        new = list[Record]()
        for fact in append.facts:
            records = turn.read((fact,))
            self.said_by[fact.salt or b""] = records
            self.durable_at[(fact.salt or b"").hex()] = now
            new += records
        said += new
        frames = [each for each in append.frames if f"{each.attempt_id}/frames" not in self.durable_at]
        for record in (*new, *attempts_of(turn, said, frames)):
            self.durable_at[record.record_id] = now
            self.journal.append(Kept(now, instance, record))
            self.kept[record.record_id] = record
            if isinstance(record, ChildOpened):
                self.children[record.child_id] = record
            self.trace.add(now, f"durable {record.record_id} of {instance}")
        return True

    def committed_at(self, append: Append) -> float:
        """Return when the last record of an append became durable; 0 if one never did."""
        times = [self.durable_at.get(each) for each in append.ids]
        return 0.0 if not times or None in times else max(time for time in times if time is not None)

    def children_opened(self) -> list[ChildOpened]:
        """Return the children that are on record."""
        return list(self.children.values())


@dataclass(slots=True)
class Weather:
    """What decides over one process's database: faults by chance.

    Attributes:
        power_cut: told each time a commit is at hand, with the number of the commit and whether it has been kept; it
            may stop the process there.
    """

    chance: Random
    faults: StoreFaults
    counted: Counter[str]
    power_cut: Callable[[int, bool], None] = lambda number, kept: None


class FaultyDatabase(MemoryJournal):
    """The database of one process."""

    waits = True

    def __init__(
        self,
        loop: VirtualLoop,
        disk: Disk,
        weather: Weather,
        instance: InstanceId = ALONE,
        alive: Callable[[InstanceId], bool] | None = None,
    ) -> None:
        """Join the parts."""
        super().__init__(disk.contents, instance, alive)
        self._loop = loop
        self._disk = disk
        self._weather = weather
        self._unknown_again = False
        self._commits = 0

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Keep what was decided, or refuse, or say nothing of it."""
        self._commits += 1
        chance, counted = self._weather.chance, self._weather.counted
        faults = StoreFaults() if self._disk.healthy else self._weather.faults
        draw, hangs = chance.random(), chance.random() < faults.hangs
        slow = chance.random() < faults.slow
        counted["store slow"] += slow
        await asyncio.sleep(chance.uniform(0.3, 4.0) if slow else chance.uniform(0, 0.004))
        self._refuse(draw < faults.refuses, faults)
        self._weather.power_cut(self._commits, False)
        await asyncio.sleep(0)
        if hangs and chance.random() < 0.3:
            await self._say_nothing("store hangs and does not keep")
        kept = [self._disk.keep(each, self.instance, self._loop.time()) for each in appends]
        counted["store lost compare-and-set"] += kept.count(False)
        self._weather.power_cut(self._commits, True)
        await asyncio.sleep(0)
        if hangs:
            await self._say_nothing("store hangs and keeps")
        if self._unknown_again or faults.refuses <= draw < faults.refuses + faults.forgets_to_answer:
            self._unknown_again = not self._unknown_again and chance.random() < 0.5
            counted["store commits and says it did not"] += 1
            raise CommitUnknown("the answer was lost")
        return kept

    def _refuse(self, away: bool, faults: StoreFaults) -> None:
        now, counted = self._loop.time(), self._weather.counted
        if any(begin <= now < end for begin, end in faults.full):
            counted["store full"] += 1
            raise StoreUnavailable("the disk is full")
        if away:
            counted["store refuses"] += 1
            raise StoreUnavailable("the store is away")

    async def _say_nothing(self, which: str) -> None:
        """Give up waiting, as every statement does."""
        self._weather.counted[which] += 1
        await asyncio.sleep(self._weather.chance.uniform(0.5, 3.0))
        raise CommitUnknown("no answer in time")

    async def _read(self) -> None:
        """Take some time for a read."""
        if not self._disk.healthy and self._weather.chance.random() < self._weather.faults.slow_reads:
            self._weather.counted["store slow to read"] += 1
            await asyncio.sleep(1.0)

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all of a turn, perhaps late."""
        await self._read()
        return await super().facts(turn_id)

    async def last_called(self, episode_id: EpisodeId) -> TurnId | None:
        """Return which turn called last, perhaps too late."""
        await self._read()
        return await super().last_called(episode_id)

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return what nobody goes on with, perhaps late."""
        await self._read()
        return await super().left_behind(limit)

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns whose parent is lost, perhaps late."""
        await self._read()
        return await super().overdue_turns(now, limit)


class WatchedStore(JournalStore):
    """The store, with a note of what was asked of it and how that was answered."""

    def __init__(
        self, loop: VirtualLoop, disk: Disk, database: FaultyDatabase, beside: tuple[Spawner, Recorder]
    ) -> None:
        """Join the parts."""
        super().__init__(database, *beside, disk.salt)
        self._loop = loop
        self._disk = disk

    async def append(self, drafts: Sequence[Draft]) -> None:
        """Append."""
        append = Append(self.instance, tuple(drafts), self._disk.said_by, self._loop.time())
        self._disk.appends.append(append)
        try:
            await super().append(drafts)
        except (RecordConflict, StoreUnavailable) as refused:
            append.refused, append.answered_at = refused, self._loop.time()
            raise
        else:
            append.answered_at = self._loop.time()
        finally:
            append.over_at = self._loop.time()
