"""Creates the operations that stop a sub-agent (kills and ramp-downs), and connects them.

The sidecar and the tests both call `stops`, so that the tests use the connections of the sidecar.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import Struct

from sidecar.core.definitions.cards.card import Card
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.rollout.audit.effective_transitions import EffectiveTransitions
from sidecar.operations.rollout.requests import StepAnswer
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.stops.flag_edges import KillFlagWatcher
from sidecar.operations.rollout.stops.kills import KillDefinition
from sidecar.operations.rollout.stops.local_stop import ApplyStopLocally
from sidecar.operations.rollout.stops.ramp_downs import RampDownImmediately
from sidecar.operations.rollout.stops.record_stops import RecordStops
from sidecar.operations.rollout.store.ports import StopKind


class Stops(Struct, frozen=True, kw_only=True):
    """The operations that stop sub-agents, and the detection of the first bind at which a transition took effect.

    Attributes:
        first: applies a stop in this replica, before the record has it.
        kill, ramp_down: take a stop: here first, then in the record.
        record: records the stops that the store could not accept at first.
        edges: kills a definition whose kill flag is switched off; its `observe` must receive each change of the flags.
        effective: detects the first bind at which a transition took effect.
    """

    first: ApplyStopLocally
    kill: KillDefinition
    ramp_down: RampDownImmediately
    record: RecordStops
    edges: KillFlagWatcher
    effective: EffectiveTransitions

    def rollouts(self) -> RolloutView:
        """Return the rollouts that a bind uses, and note that a bind used them."""
        return self.effective.bound(self.first.views.current())

    @property
    def by_kind(self) -> Mapping[StopKind, Callable[[Any, str], Coroutine[Any, Any, StepAnswer]]]:
        """The operation behind each kind of stop, called with the request and the authenticated operator."""
        # `Any`: the two operations take requests of different types.
        return {StopKind.KILL: self.kill, StopKind.RAMP_DOWN: self.ramp_down}

    @property
    def loops(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        """The background loops, which run as long as the process."""
        return (self.record.run, self.edges.run, self.effective.run)


def stops(first: ApplyStopLocally, take: ExecuteStep, card_of: Callable[[Digest], Card | None]) -> Stops:
    """Build the operations.

    Args:
        first: applies stops locally.
        take: takes a step in the record.
        card_of: returns a card that was ever loaded here.
    """
    kill = KillDefinition(stops=first, take=take, flags=take.flags, card_of=card_of)
    ramp_down = RampDownImmediately(stops=first, take=take, card_of=card_of)
    return Stops(
        first=first,
        kill=kill,
        ramp_down=ramp_down,
        record=RecordStops(first, kill, ramp_down),
        edges=KillFlagWatcher(
            flags=take.flags.snapshot,
            view=first.views.current,
            kill=kill,
            clock=first.clock,
            recorder=first.recorder,
        ),
        effective=EffectiveTransitions(first.store, first.clock, first.recorder),
    )
