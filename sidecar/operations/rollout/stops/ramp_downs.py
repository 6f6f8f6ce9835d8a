"""Ramp-downs after a safety breach: at 0 % here first, then in the record, without a gate. Source: PF1-D-31.

While the store is unavailable, the replicas that received the ramp-down treat the definition as being at 0 %. A
rollback does not take effect first: it restores another definition, and that needs the store.
"""

from collections.abc import Callable

import msgspec

from sidecar.core.definitions.cards.card import Card
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.definition_lookup import match_in_memory
from sidecar.operations.rollout.requests import RampDown, StepAnswer
from sidecar.operations.rollout.steps.phases import StopInEffect
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.stops.local_stop import (
    LONGEST_RECORDING,
    LONGEST_WRITE,
    REPLICA,
    ApplyStopLocally,
    Recorded,
    reach_of,
)
from sidecar.operations.rollout.store.ports import LocalStop, StopKind
from sidecar.operations.rollout.stored_answers import answer_about


class RampDownImmediately(msgspec.Struct, frozen=True, kw_only=True):
    """The operation behind `RampDown`.

    Attributes:
        stops: applies the ramp-down locally.
        take: takes the step in the record.
        card_of: returns a card that was ever loaded here.
    """

    stops: ApplyStopLocally
    take: ExecuteStep
    card_of: Callable[[Digest], Card | None]

    async def __call__(self, asked: RampDown, actor: str) -> StepAnswer:
        """Ramp down; the answer says what the ramp-down has reached.

        Raises:
            TransitionRefused, RequestIdReused, UnknownDefinition.
            RevisionConflict: only if the request names a revision.
            StoreUnavailable: the store is unavailable, and this process does not know which definition is meant.
        """
        views, tombstones = self.stops.views, self.stops.tombstones
        # From memory: the stop must be possible while the store is unavailable.
        found = match_in_memory(views.current().slots, asked, self.card_of)
        # Nothing to stop here: the record decides and, unlike memory, knows the reason for a refusal.
        if asked.dry_run or found is None or found.facts.state is not LifecycleState.PROMOTE:
            return await views.shown(await self.take(asked, actor))
        stop = self.stops.stop_of(asked, StopKind.RAMP_DOWN, found, actor)
        is_pending = any(each.key == stop.key for each in tombstones.pending())
        # Too many stops wait for the store. The definition is at 0 % here already, so this request can wait for the
        # store as other steps do.
        if not is_pending and stop.digest in tombstones.ramped_down() and self.stops.is_full():
            return await self.take(asked, actor)
        warnings = await self.stops.hold(stop)
        # Created after `hold`, so that the stop holds here before the store is called. An earlier call that left this
        # stop pending has confirmed it, so it may no longer be refused, e.g. because of the revision.
        taking = self.take(asked, actor, StopInEffect(stop=stop) if is_pending else None)
        recorded = await self.stops.recorded(stop, taking, LONGEST_WRITE)
        # The ramp as binds here use it from now on, whatever the record says.
        local_answer = msgspec.structs.replace(answer_about(*found), ramp=0, reached=(REPLICA,))
        return reach_of(stop, local_answer, recorded, warnings)

    async def record(self, asked: RampDown, stop: LocalStop) -> Recorded:
        """Record a ramp-down at any revision: its answer has promised that.

        If it is refused for good (there is no ramp any more), it no longer counts.
        """
        return await self.stops.recorded(stop, self.take(asked, stop.by, StopInEffect(stop=stop)), LONGEST_RECORDING)
