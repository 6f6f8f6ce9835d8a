"""Ramp-downs after a safety breach: at 0 % here first, then on record; nothing is waited for. Source: PF1-D-31.

With the store away the definition counts as being at 0 % in the replicas that were asked, until it is on record. A
rollback is not done so: it brings somebody back, and that waits for the store.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.recording import in_time
from sidecar.operations.rollout.ports import LocalStop, StopKind
from sidecar.operations.rollout.requests import Asked, RampDown, StepAnswer
from sidecar.operations.rollout.stopping import RECORD, REPLICA, Found, StopParts, found_in, hold, let_go, stop_of

LONGEST_STEP: Final = 2.0
"""Seconds for the store."""
NOT_RECORDED: Final = "the store is away: the ramp-down is put on record as soon as that is back"

TakesStep = Callable[[Asked, str], Awaitable[StepAnswer]]


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
        found = found_in(self._parts.views.current().slots, asked)
        if asked.dry_run or found is None or found[1].state is not LifecycleState.PROMOTE:
            return await self._take(asked, actor)
        stop = stop_of(asked, StopKind.RAMP_DOWN, found, (actor, self._parts.clock))
        warnings = await hold(self._parts, stop)
        try:
            answer = await in_time(self._take(asked, actor), LONGEST_STEP)
        except SubagentsError:
            await let_go(self._parts, stop)
            raise
        if isinstance(answer, StoreUnavailable):
            return _held(asked, found, warnings)
        await self._let_go_once_shown(stop)
        return msgspec.structs.replace(answer, reached=(REPLICA, RECORD), warnings=warnings)

    async def record(self, asked: RampDown, stop: LocalStop) -> None:
        """Put a ramp-down on record. Raises `SubagentsError`s of the step; refused for good: it no longer counts."""
        try:
            await self._take(asked, stop.by)
        except StoreUnavailable:
            raise
        except SubagentsError:
            await let_go(self._parts, stop)
            raise
        await self._let_go_once_shown(stop)

    async def _let_go_once_shown(self, stop: LocalStop) -> None:
        """Let the record speak from here on; not before binds show it, or the old ramp would come back for a moment."""
        version = await in_time(self._parts.store.version(), LONGEST_STEP)
        if isinstance(version, StoreUnavailable):
            return
        await self._parts.views.look()
        if self._parts.views.current().version >= version:
            await let_go(self._parts, stop)


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
