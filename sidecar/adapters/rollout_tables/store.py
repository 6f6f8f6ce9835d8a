"""Implements the store of rollouts in tables; each database adds its reads, its transactions and its replicas."""

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
    """The reads of the audit that its verification needs."""

    async def audit_head(self) -> AuditHead:
        """Return the head of the audit's chain."""
        return await self._read(reading.audit_head())

    async def linked_audit(self, after: int, limit: int) -> Sequence[LinkedRow]:
        """Return the next rows of the audit with their links."""
        return await self._read(reading.linked_audit(after, limit))

    async def audit_markers(self) -> tuple[AuditMarker, ...]:
        """Return every marker, oldest first."""
        return await self._read(reading.audit_markers())

    @abstractmethod
    async def _read(self, steps: Steps[Result]) -> Result:
        """Run read-only work. Raises `StoreUnavailable`."""


class TabledRollouts(AuditReads):
    """Rollouts in the tables of one database.

    Args:
        instance: of this process; a new one at each start.
    """

    def __init__(self, instance: InstanceId) -> None:
        self._instance = instance
        self._writes = count(1)

    async def version(self) -> int:
        """Return the newest version."""
        return await self._read(reading.version())

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Return all rollouts, by slot."""
        return await self._read(reading.rollouts())

    async def rollout(self, slot: Slot) -> SlotRollout | None:
        """Return one rollout."""
        return await self._read(reading.rollout(slot))

    async def write(self, change: RolloutWrite) -> None:
        """Write one change as a whole, or raise and change nothing."""
        written = partial(self._written, partial(writing.write, change, self._next_id()))
        if change.answer is not None:
            # The answer and the write id make a repetition recognisable. Without an answer, the stored value itself
            # shows whether the lost commit succeeded.
            await confirmed(written)
        else:
            await confirmed_by(partial(self._is_rollout, change), written)

    async def answer(self, request_id: str) -> StoredAnswer | None:
        """Return the stored answer to a request."""
        return await self._read(reading.answer(request_id))

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, oldest first."""
        return await self._read(reading.audit(query, self._time))

    async def became_effective(self, event_ids: Sequence[str], at: datetime) -> Sequence[str]:
        """Record that transitions took effect; return those that this replica recorded, now or before."""
        return await self._confirmed(partial(writing.became_effective, event_ids, at, self._instance))

    async def unexported(self, limit: int) -> Sequence[AuditRow]:
        """Return audit rows that not every sink has received, oldest first."""
        return await self._read(reading.unexported(limit, self._time))

    async def exported(self, rows: Sequence[AuditRow]) -> None:
        """Note that every sink has received these rows."""
        await self._confirmed(partial(writing.exported, rows))

    async def keep_definition(self, definition: KeptDefinition) -> None:
        """Store a definition by its digest; if it is stored already, this only reads."""
        # A write would make every replica commit once for each definition at each start.
        if await self.definition(definition.digest) is None:
            await confirmed(partial(self._written, partial(writing.keep_definition, definition)))

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a stored definition."""
        return await self._read(reading.definition(digest))

    async def flags(self) -> Sequence[StoredFlag]:
        """Return the embedded flags, by name."""
        return await self._read(reading.flags())

    async def set_flag(self, name: str, on: bool, expected_revision: int, by: str, at: datetime) -> StoredFlag:
        """Set or create a flag. Raises `RevisionConflict`."""
        # A lost commit is recognised by the stored value: the time and the operator are part of it.
        flag = StoredFlag(name, on, expected_revision + 1, at, by)
        await confirmed_by(partial(self._is_flag, flag), partial(self._written, partial(writing.set_flag, flag)))
        return flag

    async def old_audit(self, before: datetime) -> OldAudit | None:
        """Return the rows that may be removed."""
        return await self._read(reading.old_audit(before))

    async def remove_audit(self, marker: AuditMarker) -> int:
        """Store the marker and remove the rows that it covers."""
        return await self._confirmed(lambda: writing.remove_audit(marker, self._purge(marker)))

    @abstractmethod
    async def _transaction(self, work: Callable[[], Steps[Result]]) -> Result:
        """Run `work` in one transaction, possibly repeatedly. Raises `CommitUnknown`, `StoreUnavailable`."""

    @abstractmethod
    def _changed(self) -> None:
        """Announce that something was committed."""

    @abstractmethod
    def _purge(self, marker: AuditMarker) -> Steps[None]:
        """Store a marker, and remove the rows that it covers."""

    @abstractmethod
    def _time(self, value: Any) -> datetime:
        """Convert a time of the database."""

    async def _confirmed(self, work: Callable[[], Steps[Result]]) -> Result:
        return await confirmed(partial(self._transaction, work))

    async def _written(self, work: Callable[[], Steps[None]]) -> None:
        # Announced only after the commit: a reader that is woken earlier would see the old state, and wait for the next
        # hint.
        await self._transaction(work)
        self._changed()

    async def _is_rollout(self, change: RolloutWrite) -> bool:
        return change.rollout is not None and await self.rollout(change.slot) == change.rollout

    async def _is_flag(self, flag: StoredFlag) -> bool:
        return await self._read(reading.flag(flag.name)) == flag

    def _next_id(self) -> str:
        # Unique over all processes, because `instance` is new at each start.
        return f"{self._instance}/{next(self._writes)}"
