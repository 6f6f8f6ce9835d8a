"""What a database brings to be held to the rules of `sidecar/operations/record/ports.py`."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

import pytest

from sidecar.core.errors import RecordConflict
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.encoding import SALT_BYTES
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.operations.record.lists import TurnListReader
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projection_ports import Projection
from sidecar.operations.record.projector import Projector
from sidecar.operations.record.rows_in_memory import RowsInMemory
from tests.support.recording.translation import StoreOfRecords, turn_of


class Tasks:
    """Spawns plain tasks."""

    def __init__(self) -> None:
        """Begin with none."""
        self.all: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run it."""
        self.all.append(asyncio.ensure_future(work))
        return self.all[-1]


class OpenedRecord(StoreOfRecords):
    """The store of one process, with the journal below it and the projector beside it.

    Nothing is projected unless a test does so, or asks for that to be done `at_once` for each list.
    """

    def __init__(self, journal: Journal, projection: Projection | None = None, *, at_once: bool = False) -> None:
        """Begin with nothing in memory."""
        recorder = MeasuringRecorder(Metrics())
        self.projector = Projector(journal, projection or RowsInMemory(), recorder)
        lists = TurnListReader(self.projector, at_once=at_once)
        super().__init__(journal, Tasks(), recorder, partial(os.urandom, SALT_BYTES), lists)
        self.journal = journal

    async def commit(self, records: Sequence[Record]) -> None:
        """Append records of any turns, those of each turn in one group."""
        by_turn: dict[TurnId, list[Record]] = {}
        for record in records:
            by_turn.setdefault(turn_of(record), []).append(record)
        for group in by_turn.values():
            await self.append(group)


class RecordBench(ABC):
    """One record, which is empty when it is entered and gone afterwards."""

    async def open(self, instance: str, *, at_once: bool = False) -> OpenedRecord:
        """Return the record as a process sees it that has just started under the id `instance`."""
        return OpenedRecord(await self.journal(instance), self.projection(instance), at_once=at_once)

    def projection(self, instance: str) -> Projection:
        """Return the rows of lists, which all processes share."""
        return RowsInMemory()

    @abstractmethod
    async def journal(self, instance: str) -> Journal:
        """Return the journal of a process that has just started.

        PostgreSQL: a pool of its own, and a lease that is renewed by `renew_lease` only; long enough for a test.
        """

    @abstractmethod
    async def kill(self, journal: Journal) -> None:
        """Let the process of `journal` be dead for all others, as soon as this returns.

        PostgreSQL: let its lease run out in the database, e.g. by setting the end of it to the past.
        """

    async def __aenter__(self) -> Self:
        """Make an empty record."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close every journal that was opened, and remove the record."""
        return


async def refuses(record: OpenedRecord, *records: Record) -> None:
    """Fail unless the group is refused and nothing of its turn has changed."""
    turn = turn_of(records[0])
    before = await state_of(record, turn)
    with pytest.raises(RecordConflict):
        await record.append(records)
    assert await state_of(record, turn) == before


async def state_of(record: OpenedRecord, turn_id: str) -> tuple[object, ...]:
    """Return everything that can be read of a turn, and where the running roots stand."""
    attempts: Sequence[object] = await record.attempts(TurnId(turn_id))
    return await record.turn(TurnId(turn_id)), tuple(attempts), tuple(await record.journal.roots())
