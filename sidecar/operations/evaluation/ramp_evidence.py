"""Counts users, calls and scores of each arm of a ramp, from the record.

A watchdog asks for these counts to decide whether a ramp is safe. They are computed only when it asks, so dispatches
pay nothing for them.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from sidecar.core.errors import StoreUnavailable
from sidecar.core.evaluation.arm_evidence import ArmEvidence, RampStep
from sidecar.core.evaluation.observing import observe
from sidecar.core.identifiers import Digest
from sidecar.core.journal.encoding import UnreadableFact
from sidecar.core.listing.changes import ChangedTurn, Watermarks
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.ports import Clock
from sidecar.operations.record.ports import NotThisJournal, RecordReads
from sidecar.operations.rollout.audit.audit_log import pages_of
from sidecar.operations.rollout.store.ports import AuditQuery, RolloutStore

FACTS_OF_A_PASS: Final = 500
"""The most facts in one read of the record."""
TURNS_IN_A_ROW: Final = 20
"""The most turns that are counted before other tasks of the event loop may run."""
LONGEST: Final = timedelta(seconds=5)
"""The longest time of reading for one request; the next request continues."""
# Events after which the users of the arms are others, so that the counts begin anew.
STEPS_OF_A_RAMP: Final = frozenset({RolloutEventKind.RAMP_SET, RolloutEventKind.ACTIVATED, RolloutEventKind.CONFIGURED})


class RampReading(Struct, frozen=True):
    """The evidence about one ramp.

    Attributes:
        behind: number of recorded facts that are not counted yet.
        unreadable: number of turns that could not be counted.
    """

    evidence: ArmEvidence
    behind: int
    unreadable: int


class _Ramp(Struct):
    """The counts of one step of a ramp, and the position in the journal up to which they go."""

    evidence: ArmEvidence
    marks: Watermarks
    behind: int = 0
    unreadable: int = 0


class ReadRampEvidence:
    """The operation. It stores its counts, so that each fact is read once for each step of a ramp."""

    def __init__(self, store: RolloutStore, record: RecordReads, clock: Clock) -> None:
        self._store, self._record, self._clock = store, record, clock
        self._ramps: dict[RampStep, _Ramp] = {}
        # The last event that changed the ramp of each definition, with its audit row's number.
        self._last_step: dict[Digest, tuple[int, RolloutEvent]] = {}
        # The number of the last audit row that was read, so that each row is read once.
        self._after = 0
        self._reading = asyncio.Lock()

    async def __call__(self) -> Sequence[RampReading]:
        """Return the evidence about every ramp between 0 % and 100 %. Raises `StoreUnavailable`."""
        # One reader at a time: two would count the same facts twice.
        async with self._reading:
            steps = await self._steps()
            # Another step of a ramp begins with empty counts: its arms are other users. Finished steps are dropped.
            self._ramps = {step: self._ramps.get(step) or self._without_counts(step) for step in steps}
            until = self._clock.monotonic() + LONGEST.total_seconds()
            for ramp in self._ramps.values():
                await self._catch_up(ramp, until)
            return [RampReading(each.evidence, each.behind, each.unreadable) for each in self._ramps.values()]

    def _without_counts(self, step: RampStep) -> _Ramp:
        # Eight bytes for each user: enough to count a user once, and no user id is stored.
        return _Ramp(ArmEvidence(step, lambda user: blake2b(user.encode(), digest_size=8).digest()), Watermarks())

    async def _steps(self) -> list[RampStep]:
        """Read the new audit rows; return the present step of each ramp."""
        async for page in pages_of(self._store, AuditQuery(after=self._after)):
            for row in page:
                self._after = max(self._after, row.number)
                if isinstance(row.body, RolloutEvent) and row.body.what in STEPS_OF_A_RAMP:
                    self._last_step[row.body.digest] = row.number, row.body
        found = [self._step_of(each) for each in await self._store.rollouts()]
        return [each for each in found if each is not None]

    def _step_of(self, rollout: SlotRollout) -> RampStep | None:
        """Return the present step of a slot's ramp; None if there are no two definitions to compare."""
        if rollout.active is None or rollout.target is None or rollout.active not in self._last_step:
            return None
        active, target = rollout.definitions[rollout.active], rollout.definitions.get(rollout.target)
        if active.state is not LifecycleState.PROMOTE or not 0 < active.ramp < WHOLE or target is None:
            return None
        return RampStep(
            slot=rollout.slot,
            active=active.digest,
            target=target.digest,
            ramp=active.ramp,
            since=self._last_step[active.digest][1].at,
            active_id=active.definition_id,
            target_id=target.definition_id,
            curve=rollout.curve,
        )

    async def _catch_up(self, ramp: _Ramp, until: float) -> None:
        """Count the new facts, as far as the time allows."""
        while True:
            try:
                changes = await self._record.changed(ramp.marks, FACTS_OF_A_PASS)
            except NotThisJournal:  # another record, or a restored one: what was counted may not be on it
                fresh = self._without_counts(ramp.evidence.step)
                ramp.evidence, ramp.marks, ramp.unreadable = fresh.evidence, fresh.marks, 0
                raise StoreUnavailable(
                    "the record has been replaced; its ramps are counted anew",
                    retry_after=timedelta(seconds=1),
                ) from None
            # Counting rarely waits by itself: without the pauses, a full read would delay the binds of this process.
            for number, turn in enumerate(changes.turns, 1):
                await self._count(ramp, turn)
                if number % TURNS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
            # After the counting, so that no fact is left out. If a request is cancelled before this line, the next
            # request counts the same facts a second time, without effect: `ArmEvidence` counts each user once.
            ramp.marks, ramp.behind = changes.reached, changes.behind
            if not changes.behind or self._clock.monotonic() >= until:
                return
            await asyncio.sleep(0)

    async def _count(self, ramp: _Ramp, turn: ChangedTurn) -> None:
        # Older than the step: its users were assigned by another ramp.
        if turn.facts[-1].at < ramp.evidence.step.since:
            return
        facts = turn.facts
        try:
            # `observe` needs the turn from its beginning, which has the claims: who the user is, and in which arm.
            if turn.first > 1:
                facts = (await self._record.facts(turn.turn_id)).facts[: turn.version]
            if len(facts) == turn.version:  # else retention has removed the turn in between
                observe(turn.turn_id, facts, turn.first, (ramp.evidence,))
        except UnreadableFact:
            ramp.unreadable += 1
