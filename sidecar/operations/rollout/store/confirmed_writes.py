"""Repeats a write once if its answer was lost, in a form that stores nothing twice."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.core.identifiers import Digest, InstanceId, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.operations.record.ports import CommitUnknown
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.ports import KeptDefinition, RolloutWrite, StoredFlag

Result = TypeVar("Result")

AGAIN: Final = timedelta(seconds=1)


async def confirmed(write: Callable[[], Awaitable[Result]]) -> Result:
    """Write; if the commit's result is unknown, write once more.

    Args:
        write: idempotent: it finds what is already stored; raises `CommitUnknown` if the store's reply was lost.

    Raises:
        StoreUnavailable: the write failed, or could not be confirmed.
    """
    try:
        return await write()
    except CommitUnknown:
        return await _again(write)


async def confirmed_by(kept: Callable[[], Awaitable[bool]], write: Callable[[], Awaitable[None]]) -> None:
    """Write; if the commit's result is unknown and a repetition conflicts, read back what is stored.

    Args:
        kept: returns whether the stored value is the written one.
        write: compares revisions; raises `CommitUnknown` if the store's reply was lost.

    Raises:
        RevisionConflict: another writer was first; nothing was written.
        StoreUnavailable: the write failed, or could not be confirmed.
    """
    try:
        await write()
    except CommitUnknown:
        try:
            await _again(write)
        except RevisionConflict:
            if not await kept():
                raise StoreUnavailable(
                    "it is not known whether the change was kept; read it again", retry_after=AGAIN
                ) from None


async def _again(write: Callable[[], Awaitable[Result]]) -> Result:
    try:
        return await write()
    except CommitUnknown:
        raise StoreUnavailable("the database does not confirm what is written; ask again", retry_after=AGAIN) from None


class ConfirmedRollouts(ABC):
    """The writes of the rollouts' port. A database adds its reads, and how it runs a transaction.

    Args:
        instance: of this process; a new one at each start.
        statements: a module of functions that write inside one transaction; the first argument is the connection.
    """

    def __init__(self, instance: InstanceId, statements: Any) -> None:
        self._instance = instance
        self._statements = statements
        self._writes = count(1)

    async def write(self, change: RolloutWrite) -> None:
        """Write one change. See the port."""
        written = partial(self._written, partial(self._statements.write, change=change, write_id=self._next_id()))
        if change.answer is not None:
            await confirmed(written)
        else:
            await confirmed_by(partial(self._is_rollout, change), written)

    async def became_effective(self, event_ids: Sequence[str], at: datetime) -> Sequence[str]:
        """Record that transitions took effect; return those that had not been recorded before."""
        noted = partial(self._statements.became_effective, event_ids=event_ids, at=at, noted_by=self._next_id())
        ours: Sequence[str] = await confirmed(partial(self._transaction, noted))
        return ours

    async def keep_definition(self, definition: KeptDefinition) -> None:
        """Keep a definition by digest; one that is kept already costs a read."""
        if await self.definition(definition.digest) is None:
            work = partial(self._statements.keep_definition, definition=definition)
            await confirmed(partial(self._written, work))

    async def set_flag(self, name: str, on: bool, expected_revision: int, by: str, at: datetime) -> StoredFlag:
        """Set or create a flag. Raises `RevisionConflict`."""
        flag = StoredFlag(name, on, expected_revision + 1, at, by)
        work = partial(self._statements.set_flag, flag=flag)
        await confirmed_by(partial(self._is_flag, flag), partial(self._written, work))
        return flag

    async def remove_audit(self, marker: AuditMarker) -> int:
        """Store the marker and remove the rows that it covers."""
        work = partial(self._statements.remove_audit, marker=marker)
        removed: int = await confirmed(partial(self._transaction, work))
        return removed

    @abstractmethod
    async def rollout(self, slot: Slot) -> SlotRollout | None:
        """Return one rollout."""

    @abstractmethod
    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a kept definition."""

    @abstractmethod
    async def _flag(self, name: str) -> StoredFlag | None:
        """Return one embedded flag."""

    @abstractmethod
    async def _transaction(self, work: Callable[[Any], Any]) -> Any:
        """Run `work` with a connection, in one transaction, and return its result. Raises `CommitUnknown`."""

    @abstractmethod
    def _changed(self) -> None:
        """Announce that something was committed."""

    async def _written(self, work: Callable[[Any], Any]) -> None:
        await self._transaction(work)
        self._changed()

    async def _is_rollout(self, change: RolloutWrite) -> bool:
        return change.rollout is not None and await self.rollout(change.slot) == change.rollout

    async def _is_flag(self, flag: StoredFlag) -> bool:
        return await self._flag(flag.name) == flag

    def _next_id(self) -> str:
        return f"{self._instance}/{next(self._writes)}"
