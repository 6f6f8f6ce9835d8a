"""What a store is asked to keep: one type per kind of row."""

from datetime import datetime

import msgspec

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.identifiers import CallId, ChildId, DispatchId, EpisodeId, Slot, TurnId


class ChildOpened(msgspec.Struct, frozen=True):
    """A child exists from here on. Stored before its worker starts. Source: SX-3, SX-4, SX-19."""

    child_id: ChildId
    turn_id: TurnId
    episode_id: EpisodeId
    dispatch_id: DispatchId
    call_id: CallId
    slot: Slot
    step_idx: int
    context_json: str
    opened_at: datetime

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it."""
        return self.child_id


class CallSettled(msgspec.Struct, frozen=True):
    """The outcome of one call. Stored before anybody is told."""

    dispatch_id: DispatchId
    outcome: CallOutcome
    settled_at: datetime

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it.

        The emission index is in it because a dispatch whose opening was not confirmed may be repeated, and come out
        otherwise: the record that is left over from the first time must not stand for the second.
        """
        return f"{self.dispatch_id}/{self.outcome.call_id}/{self.outcome.emission_index}"


class TurnNarrated(msgspec.Struct, frozen=True):
    """What the user saw at the end of the turn."""

    turn_id: TurnId
    episode_id: EpisodeId
    narration: str
    ended_at: datetime

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it."""
        return f"{self.turn_id}/narration"


Record = ChildOpened | ChildEvent | CallSettled | TurnNarrated | RoutingRecord
