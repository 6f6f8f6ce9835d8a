"""Children whose events are appended while things fail, and what has to be on record afterwards.

Each child appends one event after the other and repeats the same one until it is acknowledged, as the operations do.
So everything that was acknowledged has to be there, nothing twice, nothing that nobody sent.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from os import urandom
from typing import Final

from sidecar.adapters.postgresql import ConnectionTimeouts
from sidecar.adapters.record_postgresql import JournalOptions, open_postgres_journal
from sidecar.adapters.system.tasks import OwnedTasks
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.records import ChildOpened, DispatchOpened, Record
from sidecar.core.identifiers import AttemptId, ChildId, InstanceId, TurnId
from sidecar.core.journal.encoding import SALT_BYTES
from sidecar.operations.record.ports import Journal
from tests.adapters.records.postgresql_bench import check_journal
from tests.support.harness import KeepingRecorder
from tests.support.journal_drafts import DIGEST
from tests.support.record_builders import a_child, a_dispatch, a_log, a_settling, moment
from tests.support.recording.translation import StoreOfRecords

QUICK: Final = ConnectionTimeouts(connect=1.0, statement=0.5, lock=0.4)
CHILDREN: Final = 6
PACE: Final = 0.01
"""Seconds until a child asks again after it was refused."""


@dataclass
class Children:
    """Children at work over one store.

    Attributes:
        acknowledged: events of each child, in order.
        refused: how often a child had to ask again.
    """

    journal: Journal
    store: StoreOfRecords
    recorder: KeepingRecorder
    acknowledged: dict[ChildId, list[str]] = field(default_factory=dict)
    refused: int = 0
    _stopping: bool = False
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def count(self) -> int:
        """How many events were acknowledged."""
        return sum(len(events) for events in self.acknowledged.values())

    @property
    def unknown(self) -> int:
        """How many commits were answered with nothing."""
        return sum(kind == "commit_unknown" for kind, _ in self.recorder.of("anomaly"))

    async def work(self, name: str) -> None:
        """Be one child after the other, until told to stop; each is closed in the end."""
        number = 0
        while not self._stopping:
            number += 1
            opened = a_dispatch(f"{name}-{number}")
            child = a_child(opened)
            await self._live(opened, child)

    async def _live(self, opened: DispatchOpened, child: ChildOpened) -> None:
        log, events = a_log(child), self.acknowledged.setdefault(child.child_id, [])
        begun = [log.created(child.opened_at, DIGEST), log.started(child.opened_at)]
        await self._confirmed([opened, child, *begun])
        events += [event.link for event in begun]
        for number in range(1, 9):
            tried = log.attempt(moment(3 + number), number, AttemptId(f"{child.child_id}-attempt-{number}"))
            await self._confirmed([tried])
            events.append(tried.link)
        settled = log.waiting_for_merge(
            moment(20), "succeeded", components=1, data_unavailable=False, input_tokens=10, output_tokens=20
        )
        await self._confirmed([settled, a_settling(opened)])
        last = [log.integrated(moment(21)), log.closed(moment(22), "turn_ended")]
        await self._confirmed(last)
        events += [event.link for event in (settled, *last)]

    async def _confirmed(self, records: Sequence[Record]) -> None:
        while True:
            try:
                await self.store.append(records)
            except StoreUnavailable:
                self.refused += 1
                self._moved.set()
                await _pace()
            else:
                self._moved.set()
                return

    async def progress(self, events: int) -> None:
        """Wait until so many more events were acknowledged."""
        wanted = self.count + events
        await self.until(lambda: self.count >= wanted)

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until something is so; looked at after each answer."""
        while not happened():
            self._moved.clear()
            await self._moved.wait()

    def stop(self) -> None:
        """Let every child that has begun come to its end, and no other begin."""
        self._stopping = True

    async def check(self, dsn: str) -> None:
        """Fail unless the record has what was acknowledged, all of it and nothing else, every chain whole."""
        kept = {}
        async for turn_id in self.journal.turn_ids():
            turn = await self.store.turn(TurnId(turn_id))
            assert turn is not None
            for child in turn.children:
                link = child.opened.link
                for event in child.events:
                    assert event.previous_link == link
                    assert event.link == event.relinked(link)
                    link = event.link
                assert [event.sequence for event in child.events] == list(range(1, len(child.events) + 1))
                kept[child.opened.child_id] = [event.link for event in child.events]
        assert kept == self.acknowledged
        await check_journal(dsn)


@asynccontextmanager
async def children_at_work(dsn: str) -> AsyncIterator[Children]:
    """Have children work; then wait for them, and check what is on record."""
    journal = await open_postgres_journal(dsn, InstanceId("one"), JournalOptions(limits=QUICK))
    recorder = KeepingRecorder()
    tasks = OwnedTasks(_stray)
    store = StoreOfRecords(journal, tasks, recorder, partial(urandom, SALT_BYTES))
    children = Children(journal, store, recorder)
    working = [asyncio.ensure_future(children.work(f"turn-{number}")) for number in range(CHILDREN)]
    try:
        yield children
        children.stop()
        await asyncio.gather(*working)
        await children.check(dsn)
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        await tasks.close()
        await journal.close()


async def _pace() -> None:
    """Give a store that is away a moment: whoever asks again at once only keeps the processor busy."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(PACE, passed.set_result, None)
    await passed


def _stray(name: str, error: BaseException) -> None:
    raise AssertionError(f"{name} ended with {error!r}")
