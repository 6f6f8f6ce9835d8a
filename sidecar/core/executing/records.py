"""The records of a turn, one type per kind. A record never changes once readers can see it.

Readers derive them from the facts of the turn (`core/journal/turn_projection.py`); the journal has only the facts. A
record with the name of a fact, e.g. `DispatchOpened`, is derived from this fact and has its texts and more values.
"""

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
    """A dispatch was accepted. With this record any sidecar can take the dispatch over. Stored with its first children.

    Attributes:
        claims_json: the claims of the surface token: the bound surface.
        request_json: the request of the dispatch, without the token.
        fingerprint: of `request_json`; a request with the same id and another fingerprint is refused.
        first_step: index of the first call among all calls of the turn, in the order in which the model emitted them.
        places: number of free places under the cap when the dispatch was accepted.
        settle_by: wall clock; a call that still runs then is stopped.
        turn_expires_at: wall clock; if the parent has not ended the turn by then, the sidecar ends it.
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
        """The id of the record, unique among all records."""
        return f"{self.turn_id}/{self.dispatch_id}"


class DispatchTaken(msgspec.Struct, frozen=True):
    """The sidecar that appends this record owns the dispatch from then on; appends of the former owner are refused.

    Attributes:
        epoch: one more than the epoch of the former owner; the first owner has 0.
    """

    turn_id: TurnId
    dispatch_id: DispatchId
    epoch: int
    taken_at: datetime

    @property
    def record_id(self) -> str:
        """The id of the record, unique among all records."""
        return f"{self.turn_id}/{self.dispatch_id}/owner/{self.epoch}"


class ChildOpened(msgspec.Struct, frozen=True):
    """A child was created: a row of `sub_agents`. Stored before the child runs. Source: SX-3, SX-4, SX-19.

    Attributes:
        parent_child_id: the child that delegated to this one; None if the orchestrator made the call.
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
        """The id of the record, unique among all records."""
        return self.child_id

    @property
    def link(self) -> str:
        """The digest of all fields, the contract included; the child's first event has it as its previous link."""
        return opening_link(msgspec.structs.astuple(self))


class AttemptRecorded(msgspec.Struct, frozen=True):
    """The frames that a runner sent in one attempt, for replay. `core/replaying` has the format of `frames_json`."""

    attempt_id: AttemptId
    child_id: ChildId
    turn_id: TurnId
    dispatch_id: DispatchId
    number: int
    frames_json: str

    @property
    def record_id(self) -> str:
        """The id of the record, unique among all records."""
        return f"{self.attempt_id}/frames"


class CallSettled(msgspec.Struct, frozen=True):
    """The outcome of one call. Stored before the outcome is sent to any listener.

    Attributes:
        revision: 0, or 1 if the store did not confirm revision 0 in time and the parent was sent another outcome. If
            both are in the store, revision 1 is the outcome.
    """

    turn_id: TurnId
    dispatch_id: DispatchId
    outcome: CallOutcome
    settled_at: datetime
    revision: int = 0

    @property
    def record_id(self) -> str:
        """The id of the record, unique among all records."""
        # With the revision: both can be on record, see above.
        return f"{self.turn_id}/{self.dispatch_id}/{self.outcome.call_id}/{self.revision}"


class TurnEnded(msgspec.Struct, frozen=True):
    """The turn has ended: it accepts no further dispatch.

    Attributes:
        fingerprint: of the request that ended the turn; empty if the sidecar ended it without a request.
        narration: what the user saw; empty if the parent was lost.
        user_message: the message of the user, as the request that ended the turn has it; for history.
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
        """The id of the record, unique among all records."""
        return f"{self.turn_id}/end"


class QuestionAnswered(msgspec.Struct, frozen=True):
    """A call has answered the question of a suspended child; see `facts.QuestionAnswered`."""

    turn_id: TurnId
    child_id: ChildId
    by: AnsweredBy
    answered_at: datetime

    @property
    def record_id(self) -> str:
        """The id of the record, unique among all records."""
        return f"{self.child_id}/answered"


class ScoreRecorded(msgspec.Struct, frozen=True):
    """A score of one call; see `facts.ScoreRecorded`. `explanation` is empty once it was erased."""

    turn_id: TurnId
    dispatch_id: DispatchId
    call_id: CallId
    score_id: str
    name: str
    value: float
    source: int
    recorded_at: datetime
    label: str = ""
    explanation: str = ""
    by: str = ""

    @property
    def record_id(self) -> str:
        """The id of the record, unique among all records."""
        return f"{self.turn_id}/score/{self.score_id}"


OfDispatch = DispatchOpened | DispatchTaken | ChildOpened | ChildEvent | AttemptRecorded | CallSettled
Record = OfDispatch | QuestionAnswered | ScoreRecorded | TurnEnded | RoutingRecord
