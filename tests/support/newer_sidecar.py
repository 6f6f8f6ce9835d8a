"""`python -m tests.support.newer_sidecar <record>`: works on a record like a sidecar with format version 2 of facts.

It runs with the patch `tests/adapters/records/format_version_2.patch`. It takes over the turn that a sidecar with
version 1 left, and reads, lists and verifies the turn.
"""

import asyncio
import os
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.encoding import SALT_BYTES
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.operations.record.lists import lists_in_memory
from sidecar.operations.record.verify_log import LogVerification
from tests.support.record_builders import a_child, a_dispatch, a_life, a_settling, a_taking
from tests.support.recording.translation import StoreOfRecords

TURN = TurnId("turn-1")


class Tasks:
    """Spawns plain tasks."""

    def __init__(self) -> None:
        self.all: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine."""
        self.all.append(asyncio.ensure_future(work))
        return self.all[-1]


async def work_on(record: Path) -> None:
    """Take the turn over and settle its call. Raises `AssertionError`."""
    journal = await SqliteJournal.open(record, InstanceId("newer"), lambda doing, error: None)
    recorder = MeasuringRecorder(Metrics())
    lists = lists_in_memory(journal, recorder)
    store = StoreOfRecords(journal, Tasks(), recorder, partial(os.urandom, SALT_BYTES), lists)
    opened = a_dispatch()
    await store.append([a_taking(opened), a_life(a_child(opened))[3], a_settling(opened)])

    formats = [msgspec.msgpack.decode(fact.body)[0] for fact in (await journal.facts(TURN)).facts]
    assert (formats[0], formats[-1]) == (1, 2), formats
    turn = await store.turn(TURN)
    assert turn is not None
    assert (turn.dispatches[0].owner, turn.dispatches[0].settled) == ("newer", True)
    assert TURN in [row.turn_id for row in (await store.turns(TurnQuery())).rows]
    verification = LogVerification(journal, None, lambda looked: None)
    assert [finding async for finding in verification.findings()] == []
    await journal.close()


if __name__ == "__main__":
    asyncio.run(work_on(Path(sys.argv[1])))
