"""The facts of a turn, one type for each kind. `docs/journal.md` has the table.

A fact has a *body* and *texts*. The rules and indexes read only the body. The texts are what a user, a model or a
sub-agent wrote, and what names the user. Erasing texts changes no decision. Values that the rest of the record
implies are stored in neither part: `turn_projection` derives them.

Each docstring says what must not happen before the fact is durable. That order is the reason for most awaits in
`operations/turn`: a crash between the fact and the action must leave the fact, never the action alone.
"""

from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.identifiers import ChildId, DispatchId, Slot, TurnId
from sidecar.core.journal.marks import Mark
from sidecar.core.journal.opening.claims import BareClaims
from sidecar.core.journal.opening.contracts import BareContract
from sidecar.core.journal.opening.part import Part
from sidecar.core.journal.opening.requests import StrippedRequest
from subagents_errors import CallFailure

# --- parts of bodies


class Intents(Part, frozen=True):
    """An `IntentReport` in its stored form."""

    declared: int
    emitted: int
    switched: bool
    prior_context_missing: bool


class ChildStart(Part, frozen=True):
    """A child that exists and may start. Readers derive its row and its events `created` and `started` from this.

    Attributes:
        step: emission index over the turn. Later facts name the child by it.
        after: microseconds from the fact's time.
        contract: without texts, and without what `opening/contracts` derives from the child's position.
        parent: step of the child that delegates to it; None if the orchestrator called it.
    """

    child_id: ChildId
    slot: Slot
    step: int
    after: int
    contract: BareContract
    parent: int | None = None


class Progress(Part, frozen=True):
    """The events of one child since the last fact that concerns it.

    Attributes:
        step: which child.
        attempts: number of its newest attempt; 0: none was made.
    """

    step: int
    marks: tuple[Mark, ...] = ()
    attempts: int = 0


class Settlement(Part, frozen=True):
    """The outcome of one call, without its texts. A call has at most two: see `revision`.

    Attributes:
        place: index of the call in its dispatch.
        after: microseconds from the fact's time.
        revision: 0; or 1 for the outcome that the parent got because revision 0 could not be confirmed in time.
        ran: the call has a child, which is the child at the call's step.
        slot: of a call without a child; None for an unknown tool.
        took: duration in microseconds; None if the call never ran.
        tokens: input, output and cached input tokens, then the cost in units of `money`. The cost is omitted if it is
            unknown; then cached tokens are omitted, too, if providers reported none. Before a cost, -1 means that
            cached tokens were not reported. None if no tokens were reported.
    """

    place: int
    outcome: Outcome
    reason: CallFailure | None
    # Offsets take a few bytes in MessagePack; a whole time for each part would be longer.
    after: int = 0
    revision: int = 0
    ran: bool = False
    slot: Slot | None = None
    attempts: int = 0
    took: int | None = None
    tokens: tuple[int, ...] | None = None


class Routed(Part, frozen=True):
    """The part of the routing decision about one call that no other fact has.

    Attributes:
        settled, started: microseconds from the end of the turn, so negative for an earlier time.
    """

    dispatch_id: DispatchId
    place: int
    settled: int
    started: int | None = None
    status_events: int = 0


class Routing(Part, frozen=True):
    """The part of the routing decision that no other fact has.

    Attributes:
        calls: dispatch by dispatch; without dispatches that the sidecar that ended the turn did not know.
        overhead: as in `RoutingRecord`, in microseconds.
        asserted_by, gate_passed: see `RoutingRecord`.
        undispatched: intents that the parent declared at the end.
        binding_digest: empty if it equals that of the first dispatch.
    """

    calls: tuple[Routed, ...]
    overhead: int
    asserted_by: str
    gate_passed: bool
    undispatched: Intents | None = None
    binding_digest: str = ""


# --- bodies: one for each kind of fact; a tag is never used for another kind


class DispatchOpened(Part, frozen=True, tag=1):
    """A dispatch exists, with the children that start immediately. Written before any of them starts.

    Attributes:
        claims: the claims of the turn's surface token, without those that name the user; None if an earlier fact of the
            turn has the same claims.
        asked: the request without its texts.
        first_step: emission index of the first call.
        places: number of free places under the fan-out cap when the dispatch was accepted.
        settle_after: microseconds from the fact's time; every call is stopped by then.
        cap: how the calls relate to the fan-out cap; None: all of them were within it.
    """

    dispatch_id: DispatchId
    claims: BareClaims | None
    asked: StrippedRequest
    first_step: int
    places: int
    intents: Intents
    settle_after: int
    cap: CapBehaviour | None = None
    children: tuple[ChildStart, ...] = ()


class ChildrenOpened(Part, frozen=True, tag=2):
    """Children that start later than their dispatch: after others in a queue, or because a child delegates to them.

    Written before they start.

    Attributes:
        progress: of the delegating child.
    """

    dispatch_id: DispatchId
    children: tuple[ChildStart, ...]
    progress: tuple[Progress, ...] = ()


class AttemptRepeated(Part, frozen=True, tag=3):
    """Another attempt of a child. Written before the attempt starts, so that a takeover counts it.

    Without that order, a sidecar that takes over could make more attempts than the contract allows.
    """

    dispatch_id: DispatchId
    progress: tuple[Progress, ...]


class ChildNoted(Part, frozen=True, tag=4):
    """Events to keep before the child settles: refused tool calls, withheld data, delegations, takeovers."""

    dispatch_id: DispatchId
    progress: tuple[Progress, ...]


class CallsCancelled(Part, frozen=True, tag=5):
    """Calls were cancelled. Written before the cancel is acknowledged; a takeover does not run them again.

    Attributes:
        places: the indexes of the calls in their dispatch.
    """

    dispatch_id: DispatchId
    places: tuple[int, ...]


class CallsSettled(Part, frozen=True, tag=6):
    """Outcomes of calls, with the end of their children's work. Written before the parent gets them.

    Attributes:
        progress: of children of these calls, up to `waiting` or `failed`.
    """

    dispatch_id: DispatchId
    calls: tuple[Settlement, ...]
    progress: tuple[Progress, ...] = ()


class DelegationSettled(Part, frozen=True, tag=7):
    """A delegated child has ended, is integrated and closed. Written before the waiting child gets the result."""

    dispatch_id: DispatchId
    progress: tuple[Progress, ...]


class ChildClosed(Part, frozen=True, tag=8):
    """The parent's verdict on one child before the turn ends (`CloseChild`). Written before `CloseChild` returns."""

    dispatch_id: DispatchId
    progress: tuple[Progress, ...]


class DispatchTaken(Part, frozen=True, tag=9):
    """The sidecar that appends this fact now owns the dispatch. It is appended before the takeover does anything else.

    Attributes:
        epoch: the epoch of the replaced ownership plus one; `DispatchOpened` has epoch 0.
    """

    dispatch_id: DispatchId
    epoch: int


class TurnEnded(Part, frozen=True, tag=10):
    """The end of the turn: the verdict on each open child, and the routing. Written before `EndTurn` returns.

    Attributes:
        claims: see `DispatchOpened`.
        progress: of each child that was open; this fact closes all of them.
    """

    claims: BareClaims | None
    close_reason: str
    routing: Routing
    progress: tuple[Progress, ...] = ()


class QuestionAnswered(Part, frozen=True, tag=11):
    """A call of this turn or a later one answers the question of a suspended child.

    Written before that call's child starts. This fact may follow the end of the turn. Each question has at most one
    answer over all replicas.

    Attributes:
        dispatch_id, step: of the child that asked.
        by_turn, by_dispatch, by_place: the answering call.
    """

    dispatch_id: DispatchId
    step: int
    by_turn: TurnId
    by_dispatch: DispatchId
    by_place: int


class ScoreRecorded(Part, frozen=True, tag=12):
    """A score of a call that has its outcome. Written before `RecordScore` returns. May follow the end of a turn.

    The explanation of the score is the only value of the fact's texts, so that it can be erased.

    Attributes:
        place: index of the call in its dispatch.
        value: 0 to 1.
        source: number of a `ScoreSource`.
        by: subject of the role token; empty: the consumer-agent.
    """

    dispatch_id: DispatchId
    place: int
    score_id: str
    name: str
    value: float
    source: int
    label: str = ""
    by: str = ""


# A new kind also needs a rule in `rules.py` and, unless it only adds events, a case in `turn_projection.py`.
OfDispatch = (
    DispatchOpened
    | ChildrenOpened
    | AttemptRepeated
    | ChildNoted
    | CallsCancelled
    | CallsSettled
    | DelegationSettled
    | ChildClosed
    | DispatchTaken
    | QuestionAnswered
    | ScoreRecorded
)
Body = OfDispatch | TurnEnded
