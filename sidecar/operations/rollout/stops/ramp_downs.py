"""Ramp-downs after a safety breach: at 0 % here first, then on record; nothing is waited for. Source: PF1-D-31.

With the store away the definition counts as being at 0 % in the replicas that were asked, until it is on record. A
rollback is not done so: it brings somebody back, and that waits for the store.
"""

from typing import Final, Protocol

import msgspec

from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.record.timed_access import in_time
from sidecar.operations.rollout.definition_lookup import Found, found_here
from sidecar.operations.rollout.requests import Asked, RampDown, StepAnswer
from sidecar.operations.rollout.stops.stop_first import (
    RECORD,
    REPLICA,
    StopParts,
    hold,
    is_full,
    let_go,
    let_go_once_shown,
    stop_of,
)
from sidecar.operations.rollout.store.ports import LocalStop, StopKind
from sidecar.operations.rollout.views.replica_barrier import shown

LONGEST_STEP: Final = 2.0
"""Seconds for the store."""
NOT_RECORDED: Final = "the store is away: the ramp-down is put on record as soon as that is back"


class TakesStep(Protocol):
    """Takes a step on record."""

    async def __call__(self, asked: Asked, actor: str, *, late: Digest | None = None) -> StepAnswer:
        """Take it; `late`: it was answered before as held for this definition, and only an outcome is missing."""
        ...


class RampDownAtOnce:
    """The operation behind `RampDown`.

    Args:
        parts: of every stop.
        take: takes the step on record.
    """

    def __init__(self, parts: StopParts, take: TakesStep) -> None:
        """Join the parts."""
        self._parts = parts
        self._take = take

    async def __call__(self, asked: RampDown, actor: str) -> StepAnswer:
        """Ramp down; the answer says what that has reached.

        Raises:
            TransitionRefused, RequestIdReused, UnknownSubagent.
            RevisionConflict: only if the request names a revision.
            StoreUnavailable: the store is away, and nothing here knows which definition is meant.
        """
        found = found_here(self._parts.views.current().slots, asked, self._parts.card)
        if asked.dry_run or found is None or found[1].state is not LifecycleState.PROMOTE:
            return await shown(self._parts.views, await self._take(asked, actor))
        stop = stop_of(asked, StopKind.RAMP_DOWN, found, (actor, self._parts.clock))
        answered = any(each.key == stop.key for each in self._parts.tombstones.pending())
        if not answered and stop.digest in self._parts.tombstones.ramped_down() and is_full(self._parts):
            return await self._take(asked, actor)
        warnings = await hold(self._parts, stop)
        try:
            take = self._take(asked, actor, late=stop.digest if answered else None)
            answer = await in_time(take, LONGEST_STEP)
        except SubagentsError:
            await let_go(self._parts, stop)
            raise
        if isinstance(answer, StoreUnavailable):
            return _held(asked, found, warnings)
        await let_go_once_shown(self._parts, stop)
        return msgspec.structs.replace(answer, reached=(REPLICA, RECORD), warnings=warnings)

    async def record(self, asked: RampDown, stop: LocalStop) -> None:
        """Put a ramp-down on record, whatever revision it was asked at: it was answered as one that will be.

        Raises:
            SubagentsError: those of the step; refused for good (there is no ramp any more), it no longer counts.
        """
        try:
            await self._take(asked, stop.by, late=stop.digest)
        except StoreUnavailable:
            raise
        except SubagentsError:
            await let_go(self._parts, stop)
            raise
        await let_go_once_shown(self._parts, stop)


def _held(asked: RampDown, found: Found, warnings: tuple[str, ...]) -> StepAnswer:
    rollout, facts = found
    return StepAnswer(
        slot=rollout.slot,
        definition_id=asked.definition_id,
        digest=facts.digest,
        state=facts.state,
        ramp=0,
        active=rollout.active == facts.digest,
        revision=rollout.revision,
        changed=True,
        reached=(REPLICA,),
        warnings=(*warnings, NOT_RECORDED),
    )
