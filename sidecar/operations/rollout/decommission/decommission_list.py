"""Lists decommissions and reports those that have exceeded their window. Source: PF1-AC-7b, PF1-D-67."""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sidecar.core.definitions.cards.card import PromptBlock
from sidecar.core.definitions.files.names import PLATFORM_OWNER, REQUIRED_BLOCKS
from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.core.identifiers import BlockId, DefinitionId, Digest, Slot, ToolId
from sidecar.core.rollout.decommission import window_passed
from sidecar.core.rollout.decommission_facts import Decommission
from sidecar.core.rollout.events import RolloutEvent
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.leftovers import DecommissionScope, leftovers, pending_steps
from sidecar.operations.ports import Clock
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.decommission.decommission_steps import Decommissioning
from sidecar.operations.rollout.store.ports import RolloutRecorder, RolloutStore, RolloutWrite, StoredAnswer
from sidecar.operations.rollout.stored_answers import DONE
from sidecar.operations.rollout.views.pinned_turns import PinnedTurns
from sidecar.operations.rollout.views.snapshot import RolloutViews

INTERVAL: Final = timedelta(minutes=1)
"""The pause between two checks."""
AGAIN_AFTER: Final = timedelta(days=1)
"""The time between two warnings about the same decommission."""
LONGEST_WRITE: Final = 5.0
"""Seconds for the store."""
OVERDUE: Final = "decommission_overdue"
UNSEEN: Final = "what the configuration still holds of it cannot be found out here"


class DecommissionReading(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of one decommission.

    Attributes:
        revision: of the slot's rollout.
        left: what must be removed or decided before it can end, one sentence each.
        blocks, tools: that the definition names, without blocks of the platform; other definitions may use them, too.
        pinned: open turns of all replicas that are bound to the definition, in any content.
    """

    slot: Slot
    revision: int
    facts: DefinitionFacts
    record: Decommission
    overdue: bool
    left: tuple[str, ...]
    blocks: tuple[BlockId, ...]
    tools: tuple[ToolId, ...]
    pinned: int


class ReadDecommissions(msgspec.Struct, frozen=True):
    """The reading operation."""

    store: RolloutStore
    decommissioning: Decommissioning
    pinned: PinnedTurns
    clock: Clock

    async def __call__(self, *, finished: bool = False) -> tuple[DecommissionReading, ...]:
        """Return every open decommission, by slot; with `finished` also the ended ones.

        Raises:
            StoreUnavailable: the store did not answer.
        """
        rollouts, pinned = await self.store.rollouts(), await self.pinned.count_by_id()
        return tuple(
            [
                await self._read(rollout, facts, record, pinned)
                for rollout in rollouts
                for facts, record in _decommissions_of(rollout)
                if finished or record.finished_at is None
            ]
        )

    async def _read(
        self, rollout: SlotRollout, facts: DefinitionFacts, record: Decommission, pinned: Mapping[DefinitionId, int]
    ) -> DecommissionReading:
        ended = record.finished_at is not None
        scope = None if ended else await self.decommissioning.scope(rollout, facts)
        return DecommissionReading(
            slot=rollout.slot,
            revision=rollout.revision,
            facts=facts,
            record=record,
            overdue=record.overdue(self.clock.now()),
            left=() if ended else (UNSEEN, *pending_steps(facts)) if scope is None else leftovers(scope),
            blocks=tuple(block.id for block in scope.card.blocks if _is_of_vertical(block)) if scope else (),
            tools=_tools(scope),
            pinned=pinned.get(facts.definition_id, 0),
        )


class WatchDecommissions:
    """Warns once a day of overdue decommissions, and writes one audit row for each, once over all replicas.

    The row is written together with a stored answer whose request id identifies the decommission. A store has one
    answer for each id, so only the first write adds a row: the writes of other replicas and of later starts do not.

    Args:
        store: keeps the audit.
        views: as binds read them, from memory.
        recorder: logs and counts overdue decommissions.
    """

    def __init__(self, store: RolloutStore, views: RolloutViews, clock: Clock, recorder: RolloutRecorder) -> None:
        """Begin without warnings."""
        self._store = store
        self._views = views
        self._clock = clock
        self._recorder = recorder
        self._warned: dict[Digest, datetime] = {}
        self._on_record: dict[Digest, datetime] = {}  # the due dates of decommissions whose row is recorded

    async def run(self) -> None:
        """Check periodically; the supervisor owns this loop."""
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL.total_seconds())

    async def look(self) -> None:
        """Check once. Each overdue decommission causes at most one warning a day, and one row of the audit."""
        now = self._clock.now()
        # From the view in memory: a check every minute must not read the store.
        late = {
            facts.digest: (rollout, facts, record)
            for rollout, facts, record in self._all_decommissions()
            if record.overdue(now)
        }
        # Definitions that are no longer overdue are forgotten: a decommission that becomes overdue again is reported at
        # once.
        self._warned = {digest: at for digest, at in self._warned.items() if digest in late}
        for digest, (rollout, facts, record) in late.items():
            dates = f"begun {record.began_at:%Y-%m-%d}, due {record.due_at:%Y-%m-%d}"
            detail = "; ".join((dates, *pending_steps(facts)))
            if digest not in self._warned or now - self._warned[digest] >= AGAIN_AFTER:
                self._warned[digest] = now
                self._recorder.anomaly(OVERDUE, f"{facts.definition_id}: {detail}")
            # By due date: a decommission that was undone and begun again has another one, and needs a row of its own.
            if self._on_record.get(digest) != record.due_at:
                event = window_passed(rollout, facts, record, now, detail)
                if await self._record(_write_of(rollout, event)):
                    self._on_record[digest] = record.due_at

    async def _record(self, change: RolloutWrite) -> bool:
        """Record the row; return whether this succeeded. If it did not, the next pass tries again."""
        try:
            written = await read_within(self._store.write(change), LONGEST_WRITE)
        except RevisionConflict:  # the view is outdated; the next pass has a newer one
            return False
        return not isinstance(written, StoreUnavailable)

    def _all_decommissions(self) -> Iterator[tuple[SlotRollout, DefinitionFacts, Decommission]]:
        slots = self._views.current().slots
        for slot in sorted(slots):
            yield from ((slots[slot], facts, record) for facts, record in _decommissions_of(slots[slot]))


def _write_of(rollout: SlotRollout, event: RolloutEvent) -> RolloutWrite:
    """Return the write of an audit row, with the answer by which the store recognises a second write."""
    answer = StoredAnswer(event.request_id, event.request_id, DONE, "", event.at, event.actor)
    return RolloutWrite(slot=rollout.slot, expected_revision=rollout.revision, events=(event,), answer=answer)


def _decommissions_of(rollout: SlotRollout) -> Iterator[tuple[DefinitionFacts, Decommission]]:
    for facts in rollout.definitions.values():
        if facts.decommission is not None:
            yield facts, facts.decommission


def _is_of_vertical(block: PromptBlock) -> bool:
    # Blocks of the platform stay when a definition goes: every definition needs them.
    return block.id not in REQUIRED_BLOCKS and block.owner != PLATFORM_OWNER


def _tools(scope: DecommissionScope | None) -> tuple[ToolId, ...]:
    return tuple(tool.id for tool in scope.card.tools) if scope else ()
