"""The rollout store in tables. The SQLite and PostgreSQL stores extend it by their transactions and notifications."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, TypeVar

from sidecar.adapters.rollout_tables import reading, writing
from sidecar.adapters.statements import Steps
from sidecar.core.identifiers import Digest, InstanceId, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow
from sidecar.operations.rollout.audit.retention import OldAudit
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.confirmed_writes import confirmed, confirmed_by
from sidecar.operations.rollout.store.ports import (
    AuditQuery,
    AuditRow,
    KeptDefinition,
    RolloutWrite,
    StoredAnswer,
    StoredFlag,
)

Result = TypeVar("Result")


class AuditReads(ABC):
    """The reads of the audit that `sidecar verify-log` needs. It uses them without the rest of the store."""

    async def audit_head(self) -> AuditHead:
        """Return number and link of the newest audit row."""
        return await self._read(reading.audit_head())

    async def linked_audit(self, after: int, limit: int) -> Sequence[LinkedRow]:
        """Return at most `limit` audit rows after the number `after`, with their links."""
        return await self._read(reading.linked_audit(after, limit))

    async def audit_markers(self) -> tuple[AuditMarker, ...]:
        """Return the markers of all removed audit rows, oldest first."""
        return await self._read(reading.audit_markers())

    @abstractmethod
    async def _read(self, steps: Steps[Result]) -> Result:
        """Run statements that only read, and return their result. Raises `StoreUnavailable`."""


class TabledRollouts(AuditReads):
    """Rollouts in the tables of one database. Implements `RolloutStore`.

    Args:
        instance: the id of this process, which is new at each start.
    """

    def __init__(self, instance: InstanceId) -> None:
        self._instance = instance
        self._writes = count(1)  # numbers the writes of this process, for their ids

    async def version(self) -> int:
        """Return the version of the store, which every change increases."""
        return await self._read(reading.version())

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Return all rollouts, by slot."""
        return await self._read(reading.rollouts())

    async def rollout(self, slot: Slot) -> SlotRollout | None:
        """Return the rollout of one slot; None: it has none."""
        return await self._read(reading.rollout(slot))

    async def write(self, change: RolloutWrite) -> None:
        """Write one change completely, or raise an error and write nothing.

        Raises:
            RevisionConflict: another write has changed the rollout or flag.
            RequestIdReused: the request id was used for another request.
            StoreUnavailable: the database cannot be reached.
        """
        # One id for all attempts of this write, by which a repetition finds what an earlier attempt has stored.
        attempt = partial(self._write_and_notify, partial(writing.write, change, self._next_id()))
        if change.answer is not None:
            # If the answer to a commit is lost, the write is repeated. The database recognises it by its ids.
            await confirmed(attempt)
        else:
            # Without a stored answer, a comparison with the stored rollout shows whether the lost commit succeeded.
            await confirmed_by(partial(self._rollout_is_stored, change), attempt)

    async def answer(self, request_id: str) -> StoredAnswer | None:
        """Return the stored answer to a request."""
        return await self._read(reading.answer(request_id))

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, oldest first."""
        return await self._read(reading.audit(query, self._time))

    async def became_effective(self, event_ids: Sequence[str], at: datetime) -> Sequence[str]:
        """Record that transitions took effect; return those that this replica recorded, now or before."""
        return await self._confirm(partial(writing.became_effective, event_ids, at, self._instance))

    async def unexported(self, limit: int) -> Sequence[AuditRow]:
        """Return audit rows that not every sink has received, oldest first."""
        return await self._read(reading.unexported(limit, self._time))

    async def exported(self, rows: Sequence[AuditRow]) -> None:
        """Record that every audit sink has received these rows."""
        # Readers are not notified of this, nor of `became_effective`: no bind depends on it.
        await self._confirm(partial(writing.exported, rows))

    async def keep_definition(self, definition: KeptDefinition) -> None:
        """Store a definition by its digest, unless it is stored already."""
        # Read first: otherwise each replica would commit once for each definition at each start.
        if await self.definition(definition.digest) is None:
            await confirmed(partial(self._write_and_notify, partial(writing.keep_definition, definition)))

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a stored definition."""
        return await self._read(reading.definition(digest))

    async def flags(self) -> Sequence[StoredFlag]:
        """Return the embedded flags, by name."""
        return await self._read(reading.flags())

    async def set_flag(self, name: str, on: bool, expected_revision: int, by: str, at: datetime) -> StoredFlag:
        """Set or create a flag. Raises `RevisionConflict`."""
        # If the answer to a commit is lost, the stored flag shows whether it succeeded: it contains time and operator,
        # by which it differs from another operator's flag of the same revision.
        flag = StoredFlag(name, on, expected_revision + 1, at, by)
        await confirmed_by(
            partial(self._flag_is_stored, flag), partial(self._write_and_notify, partial(writing.set_flag, flag))
        )
        return flag

    async def old_audit(self, before: datetime) -> OldAudit | None:
        """Return the audit rows that retention may remove next; None: there are none."""
        return await self._read(reading.old_audit(before))

    async def remove_audit(self, marker: AuditMarker) -> int:
        """Store the marker, remove the rows that it covers, and return their number."""
        # A lambda, because each attempt needs a new generator of `_purge`.
        return await self._confirm(lambda: writing.remove_audit(marker, self._purge(marker)))

    @abstractmethod
    async def _transaction(self, work: Callable[[], Steps[Result]]) -> Result:
        """Run `work` in one transaction, which may be repeated after a conflict.

        Raises:
            CommitUnknown: the answer to the commit was lost.
            StoreUnavailable: the database cannot be reached.
        """

    @abstractmethod
    def _notify_readers(self) -> None:
        """Notify the readers in this process, and in others if the database can, of a commit."""

    @abstractmethod
    def _purge(self, marker: AuditMarker) -> Steps[None]:
        """Store a marker, and remove the rows that it covers."""

    @abstractmethod
    def _time(self, value: Any) -> datetime:
        """Convert a time as the database returns it."""

    async def _confirm(self, work: Callable[[], Steps[Result]]) -> Result:
        """Run `work` in a transaction; repeat it if the answer to its commit was lost. Readers are not notified."""
        return await confirmed(partial(self._transaction, work))

    async def _write_and_notify(self, work: Callable[[], Steps[None]]) -> None:
        # Readers are notified only after the commit: an earlier one would read the old state and wait again.
        await self._transaction(work)
        self._notify_readers()

    async def _rollout_is_stored(self, change: RolloutWrite) -> bool:
        return change.rollout is not None and await self.rollout(change.slot) == change.rollout

    async def _flag_is_stored(self, flag: StoredFlag) -> bool:
        return await self._read(reading.flag(flag.name)) == flag

    def _next_id(self) -> str:
        # Unique over all processes, because `instance` is new at each start.
        return f"{self._instance}/{next(self._writes)}"
