"""What a store is asked to keep: one type per kind of row. Nothing of it is ever changed afterwards."""

from datetime import datetime

import msgspec

from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.questions import AnsweredBy
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.chain import opening_link
from sidecar.core.executing.events import ChildEvent
from sidecar.core.identifiers import AttemptId, CallId, ChildId, DispatchId, EpisodeId, Principal, Slot, TurnId


class DispatchOpened(msgspec.Struct, frozen=True):
    """A dispatch was opened. It is stored with its first children, so that any sidecar can take the dispatch over.

    Attributes:
        claims_json: what the turn was bound to, as in its surface token.
        request_json: the request without the token.
        fingerprint: of `request_json`; the same id with another fingerprint is refused.
        first_step: emission index of the first call in the turn.
        places: free places under the cap when the dispatch was accepted.
        settle_by: wall clock; every call is stopped by then.
        turn_expires_at: wall clock; a turn that is still open then is closed for its parent.
    """

    turn_id: TurnId
    dispatch_id: DispatchId
    episode_id: EpisodeId
    principal: Principal
    claims_json: str
    request_json: str
    fingerprint: str
    first_step: int
    places: int
    calls: int
    intents: IntentReport
    cap: CapBehaviour
    opened_at: datetime
    settle_by: datetime
    turn_expires_at: datetime

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it."""
        return f"{self.turn_id}/{self.dispatch_id}"


class DispatchTaken(msgspec.Struct, frozen=True):
    """A dispatch belongs to the sidecar that appends this from here on; what its owner before appends is refused.

    Attributes:
        epoch: one more than that of the ownership it replaces; the first owner has 0.
    """

    turn_id: TurnId
    dispatch_id: DispatchId
    epoch: int
    taken_at: datetime

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it."""
        return f"{self.turn_id}/{self.dispatch_id}/owner/{self.epoch}"


class ChildOpened(msgspec.Struct, frozen=True):
    """A child exists from here on: a row of `sub_agents`. Stored before its worker starts. Source: SX-3, SX-4, SX-19.

    Attributes:
        parent_child_id: the child that delegated to it; None if the orchestrator called it.
    """

    child_id: ChildId
    turn_id: TurnId
    episode_id: EpisodeId
    dispatch_id: DispatchId
    call_id: CallId
    slot: Slot
    step_idx: int
    context_json: str
    opened_at: datetime
    parent_child_id: ChildId | None = None

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it."""
        return self.child_id

    @property
    def link(self) -> str:
        """What the child's first event links to; covers every field, the contract included."""
        return opening_link(msgspec.structs.astuple(self))


class AttemptRecorded(msgspec.Struct, frozen=True):
    """What a runner sent in one attempt, for replay. `frames_json` as `core/replaying` writes it."""

    attempt_id: AttemptId
    child_id: ChildId
    turn_id: TurnId
    dispatch_id: DispatchId
    number: int
    frames_json: str

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it."""
        return f"{self.attempt_id}/frames"


class CallSettled(msgspec.Struct, frozen=True):
    """The outcome of one call. It is stored before it is delivered.

    Attributes:
        revision: 0; or 1 for the outcome that the parent got because revision 0 could not be confirmed in time.
            Revision 1 is valid, whether or not revision 0 was stored.
    """

    turn_id: TurnId
    dispatch_id: DispatchId
    outcome: CallOutcome
    settled_at: datetime
    revision: int = 0

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it."""
        return f"{self.turn_id}/{self.dispatch_id}/{self.outcome.call_id}/{self.revision}"


class TurnEnded(msgspec.Struct, frozen=True):
    """The turn has ended: nothing can be opened in it any more.

    Attributes:
        fingerprint: of the request that ended it; empty without a request.
        narration: the text that the user saw; empty if the parent was lost.
        user_message: the user's message, from the request that ended the turn; for history.
    """

    turn_id: TurnId
    episode_id: EpisodeId
    principal: Principal
    fingerprint: str
    narration: str
    close_reason: str
    ended_at: datetime
    user_message: str = ""

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it."""
        return f"{self.turn_id}/end"


class QuestionAnswered(msgspec.Struct, frozen=True):
    """A call answers the question of a suspended child; see `facts.QuestionAnswered`."""

    turn_id: TurnId
    child_id: ChildId
    by: AnsweredBy
    answered_at: datetime

    @property
    def record_id(self) -> str:
        """The id under which a store keeps it."""
        return f"{self.child_id}/answered"


OfDispatch = DispatchOpened | DispatchTaken | ChildOpened | ChildEvent | AttemptRecorded | CallSettled
Record = OfDispatch | QuestionAnswered | TurnEnded | RoutingRecord
