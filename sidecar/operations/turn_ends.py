"""How a turn and its children ended: what a repeated end is answered with."""

from dataclasses import dataclass

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.identifiers import ChildId, Slot


@dataclass(frozen=True, slots=True)
class ChildSummary:
    """The end state of one child."""

    child_id: ChildId
    sub_agent_id: Slot
    step_idx: int
    final_status: str
    close_reason: str


@dataclass(frozen=True, slots=True)
class TurnClosed:
    """How a turn ended."""

    children: tuple[ChildSummary, ...]
    routing: RoutingRecord
