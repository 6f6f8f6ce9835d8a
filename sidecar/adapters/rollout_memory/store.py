"""The store of rollouts in memory, for records in memory and for tests."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

import msgspec

from sidecar.adapters.rollout_memory.contents import RolloutsInMemory
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import Digest, InstanceId, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.audit.retention import OldAudit
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.ports import (
    AuditQuery,
    AuditRow,
    KeptDefinition,
    RolloutWrite,
    StoredAnswer,
    StoredFlag,
)
from sidecar.operations.rollout.store.replicas import NOTHING_PINNED, PinnedTurnCount, Replica
from sidecar.operations.rollout.store.store_rules import ALIVE_FOR, LISTED_FOR

ALONE: Final = InstanceId("in-memory")


class MemoryRollouts:
    """Rollouts in memory, as one replica sees them.

    Args:
        clock: decides which replicas count as alive.
        contents: shared with the stores of other replicas; default: its own.
        instance: of this replica.

    Attributes:
        away: every call raises `StoreUnavailable`, as if the database could not be reached; for tests.
    """

    def __init__(self, clock: Clock, contents: RolloutsInMemory | None = None, instance: InstanceId = ALONE) -> None:
        self.away = False
        self._clock = clock
        self._shared_contents = contents if contents is not None else RolloutsInMemory()
        self._instance = instance

    async def version(self) -> int:
        """Return the version of the store, which every change increases."""
        return self._contents().version

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell` after every change, whichever replica made it."""
        # Not through `_contents`: a listener can also be registered while the store is set to be unavailable.
        self._shared_contents.listeners.append(tell)

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Return all rollouts, by slot."""
        by_slot = self._contents().rollouts  # in the order of writes; databases sort by name
        return [by_slot[slot] for slot in sorted(by_slot)]

    async def rollout(self, slot: Slot) -> SlotRollout | None:
        """Return one rollout."""
        return self._contents().rollouts.get(slot)

    async def write(self, change: RolloutWrite) -> None:
        """Write one change as a whole, or raise and change nothing."""
        self._contents().write(change)

    async def answer(self, request_id: str) -> StoredAnswer | None:
        """Return the stored answer to a request."""
        return self._contents().answers.get(request_id)

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, oldest first."""
        matching = (row for row in self._contents().audit.values() if _matches(row, query))
        return list(islice(matching, query.limit))

    async def became_effective(self, event_ids: Sequence[str], at: datetime) -> Sequence[str]:
        """Record that transitions took effect; leave out those that another replica recorded first."""
        contents = self._contents()
        unique = dict.fromkeys(event_ids)
        return [event_id for event_id in unique if contents.became_effective(event_id, at, self._instance)]

    async def unexported(self, limit: int) -> Sequence[AuditRow]:
        """Return audit rows that not every sink has received, oldest first."""
        waiting = (row for row in self._contents().audit.values() if not row.exported)
        return list(islice(waiting, limit))

    async def exported(self, rows: Sequence[AuditRow]) -> None:
        """Note that every sink has received these rows."""
        audit = self._contents().audit
        for row in rows:
            # Retention may have removed the row since it was read.
            if row.number in audit:
                audit[row.number] = msgspec.structs.replace(audit[row.number], exported=True)

    async def keep_definition(self, definition: KeptDefinition) -> None:
        """Store a definition by digest."""
        self._contents().keep_definition(definition)

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a stored definition."""
        return self._contents().definitions.get(digest)

    async def flags(self) -> Sequence[StoredFlag]:
        """Return the embedded flags, by name."""
        by_name = self._contents().flags
        return [by_name[name] for name in sorted(by_name)]

    async def set_flag(self, name: str, on: bool, expected_revision: int, by: str, at: datetime) -> StoredFlag:
        """Set or create a flag. Raises `RevisionConflict`."""
        flag = StoredFlag(name, on, expected_revision + 1, at, by)
        self._contents().set_flag(flag, expected_revision)
        return flag

    async def show(self, version: int, at: datetime, pinned: PinnedTurnCount = NOTHING_PINNED) -> None:
        """Publish the version that the binds of this replica use, and how many open turns use each definition."""
        self._contents().shown[self._instance] = Replica(self._instance, version, at, alive=True, pinned=pinned.turns)

    async def replicas(self) -> Sequence[Replica]:
        """Return the replicas that have published recently, by id."""
        return self._published_within(LISTED_FOR)

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return the last publication of each other replica."""
        return [each for each in self._published_within(within) if each.instance != self._instance]

    def _published_within(self, within: timedelta) -> Sequence[Replica]:
        # The age decides when it is read, not when the replica published: nothing marks a replica that died.
        ages = [(each, self._clock.now() - each.seen_at) for _, each in sorted(self._contents().shown.items())]
        return [msgspec.structs.replace(each, alive=age <= ALIVE_FOR) for each, age in ages if age <= within]

    # --- retention

    async def old_audit(self, before: datetime) -> OldAudit | None:
        """Return the rows that may be removed."""
        return self._contents().old_audit(before)

    async def remove_audit(self, marker: AuditMarker) -> int:
        """Store the marker and remove the rows that it covers."""
        return self._contents().remove_audit(marker)

    async def audit_head(self) -> AuditHead:
        """Return the head of the audit's chain."""
        return AuditHead(self._contents().last_number, self._contents().last_link)

    async def linked_audit(self, after: int, limit: int) -> Sequence[LinkedRow]:
        """Return the next rows of the audit with their links."""
        rows = (row for row in self._contents().links.values() if row.number > after)
        return list(islice(rows, limit))

    async def audit_markers(self) -> tuple[AuditMarker, ...]:
        """Return every marker, oldest first."""
        return tuple(self._contents().markers)

    def _contents(self) -> RolloutsInMemory:
        if self.away:
            raise StoreUnavailable("the rollouts in memory are set to be unavailable")
        return self._shared_contents


def _matches(row: AuditRow, query: AuditQuery) -> bool:
    return (
        row.number > query.after
        and query.slot in {None, row.slot}
        and query.definition_id in {None, row.body.subagent_id}
        and (query.since is None or row.body.at >= query.since)
    )
