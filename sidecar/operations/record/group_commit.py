"""Group commit by natural batching: whatever is handed over while one commit runs goes into the next.

No timer: an append waits for nothing when the database is idle, and shares a commit when it is not (DESIGN section 14).
"""

from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from msgspec import Struct, field

from sidecar.core.errors import RecordConflict, StoreUnavailable, SubagentsError
from sidecar.core.executing.records import Record
from sidecar.operations.first_result import Ending
from sidecar.operations.ports import Recorder, Spawner
from sidecar.operations.record.delegated_reads import DelegatedReads
from sidecar.operations.record.ports import CommitUnknown, Database

MOST_IN_A_BATCH: Final = 2000
"""Records of one commit; a database takes a few milliseconds for that many."""
MOST_WAITING: Final = 20_000
"""Records that wait for a commit; more are refused at once."""
AGAIN: Final = timedelta(seconds=1)


class _Group(Struct):
    """What one caller appends."""

    records: tuple[Record, ...]
    decided: Ending[SubagentsError | None] = field(default_factory=Ending)


class GroupCommitStore(DelegatedReads):
    """A store over a database: one writer, in the order of the appends; reads go straight to the database.

    Args:
        database: does the work, one commit at a time.
        spawner: owns the writer, so that a caller that leaves does not stop a commit.
        recorder: told of what should not happen.
        shared: other processes may append to the same database meanwhile.
    """

    waits = True

    def __init__(self, database: Database, spawner: Spawner, recorder: Recorder, *, shared: bool = True) -> None:
        """Begin with nothing to write."""
        self.shared = shared
        super().__init__(database)
        self._database = database
        self._spawner = spawner
        self._recorder = recorder
        self._queue: deque[_Group] = deque()
        self._waiting = 0
        self._writing = False
        self.batches = 0

    async def append(self, records: Sequence[Record]) -> None:
        """Make `records` durable, in turn. See the port."""
        if records and self._waiting >= MOST_WAITING:
            raise StoreUnavailable(f"{self._waiting} records wait to be written already", retry_after=AGAIN)
        group = _Group(tuple(records))
        self._queue.append(group)
        self._waiting += len(group.records)
        if not self._writing:
            self._writing = True
            self._spawner.spawn(self._write(), "write the record")
        refused = await group.decided.wait()
        if refused is not None:
            raise refused

    async def _write(self) -> None:
        """Write until nothing waits."""
        try:
            while self._queue:
                await self._write_batch(self._next_batch())
        finally:
            self._writing = False
            self._decide(list(self._queue), StoreUnavailable("the sidecar stops", retry_after=AGAIN))
            self._queue.clear()
            self._waiting = 0

    def _next_batch(self) -> list[_Group]:
        batch, size = [self._queue.popleft()], 0
        while self._queue and size + len(batch[-1].records) + len(self._queue[0].records) <= MOST_IN_A_BATCH:
            size += len(batch[-1].records)
            batch.append(self._queue.popleft())
        self._waiting -= sum(len(group.records) for group in batch)
        return batch

    async def _write_batch(self, batch: list[_Group]) -> None:
        """Commit what was handed over, and say so; a group that is refused does not take the others with it."""
        try:
            refused = await self._commit([record for group in batch for record in group.records])
            if isinstance(refused, RecordConflict) and len(batch) > 1:
                for group in batch:
                    self._decide([group], await self._commit(group.records))
                return
            self._decide(batch, refused)
        except BaseException:
            self._decide(batch, StoreUnavailable("the sidecar stops, or the store is broken", retry_after=AGAIN))
            raise

    async def _commit(self, records: Sequence[Record]) -> SubagentsError | None:
        """Commit once; if nobody can say what became of it, once more, which changes nothing if it was kept."""
        if not records:
            return None
        self.batches += 1
        try:
            await self._database.commit(records)
        except CommitUnknown:
            self._recorder.anomaly("commit_unknown", f"{len(records)} records")
            try:
                await self._database.commit(records)
            except CommitUnknown as unknown:
                return StoreUnavailable(f"nobody can say whether it is kept: {unknown}", retry_after=AGAIN)
            except (RecordConflict, StoreUnavailable) as refused:
                return refused
        except (RecordConflict, StoreUnavailable) as refused:
            return refused
        return None

    def _decide(self, batch: Sequence[_Group], refused: SubagentsError | None) -> None:
        for group in batch:
            group.decided.settle(refused)
