"""Joins everything about stopping and the audit. The composition root and the tests both call this."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sidecar.core.rollout.view import RolloutView
from sidecar.operations.rollout.audit.effective_transitions import EffectiveTransitions
from sidecar.operations.rollout.stops.flag_edges import FlagEdges
from sidecar.operations.rollout.stops.kills import KillDefinition
from sidecar.operations.rollout.stops.ramp_downs import RampDownAtOnce, TakesStep
from sidecar.operations.rollout.stops.record_stops import RecordStops
from sidecar.operations.rollout.stops.stop_first import StopParts


@dataclass(frozen=True, slots=True)
class Stops:
    """What stops sub-agents, and what sees at which bind a transition took effect.

    Attributes:
        edges: its `observe` belongs into the observer of the flag snapshots.
    """

    kill: KillDefinition
    ramp_down: RampDownAtOnce
    record: RecordStops
    edges: FlagEdges
    effective: EffectiveTransitions
    parts: StopParts

    def rollouts(self) -> RolloutView:
        """Return what a bind reads; the bind is taken note of."""
        return self.effective.bound(self.parts.views.current())

    @property
    def loops(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        """What has to run in the background as long as the process does."""
        return (self.record.run, self.edges.run, self.effective.run)


def stops(parts: StopParts, take: TakesStep) -> Stops:
    """Build them; `take` takes a step on record."""
    kill, ramp_down = KillDefinition(parts), RampDownAtOnce(parts, take)
    return Stops(
        kill=kill,
        ramp_down=ramp_down,
        record=RecordStops(parts, kill, ramp_down),
        edges=FlagEdges(parts.flags, parts.views.current, kill, (parts.clock, parts.recorder)),
        effective=EffectiveTransitions(parts.store, parts.clock, parts.recorder),
        parts=parts,
    )
