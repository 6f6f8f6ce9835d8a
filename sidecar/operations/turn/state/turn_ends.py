"""The ends of turns and their children: the answers to repeated `EndTurn` requests."""

from typing import Final

from msgspec import Struct

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import OPERATOR, PARENT, PARENT_LOST, SIDECAR
from sidecar.core.identifiers import ChildId, Slot

ENDED: Final = "ended"
ENDED_BY_OPERATOR: Final = "ended_by_operator"


class EndCause(Struct, frozen=True):
    """Why a turn ends.

    Attributes:
        close_reason: of the turn, and of its children without a verdict.
        actor: who closes these children.
        yields: if another sidecar used the turn last, that sidecar ends it.
    """

    close_reason: str
    actor: str
    yields: bool = False


BY_PARENT: Final = EndCause(ENDED, PARENT)
PARENT_GONE: Final = EndCause(PARENT_LOST, SIDECAR)
IDLE: Final = EndCause(PARENT_LOST, SIDECAR, yields=True)
BY_OPERATOR: Final = EndCause(ENDED_BY_OPERATOR, OPERATOR)


class ChildSummary(Struct, frozen=True):
    """The end state of one child."""

    child_id: ChildId
    sub_agent_id: Slot
    step_idx: int
    final_status: str
    close_reason: str


class TurnClosed(Struct, frozen=True):
    """The end of a turn."""

    children: tuple[ChildSummary, ...]
    routing: RoutingRecord
