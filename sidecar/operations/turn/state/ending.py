"""The end of a turn: one state machine, from its cause to the record.

`operations/turn/end_turn.py` drives it. The machine exists because an end can be asked for several times (by the
parent, the reaper, an operator), can fail while it is recorded, and must reach the record once.
"""

from collections.abc import Mapping
from enum import Enum, auto
from hashlib import sha256
from typing import TypeAlias

import msgspec

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.errors import SubagentsError
from sidecar.core.identifiers import CallId, DispatchId
from sidecar.core.journal.entries import Draft
from sidecar.operations.first_result import FirstResult
from sidecar.operations.requests import EndTurnRequest
from sidecar.operations.turn.state.transitions import IllegalTransition
from sidecar.operations.turn.state.turn_ends import BY_PARENT, PARENT_GONE, EndCause, TurnClosed


class EndStage(Enum):
    """The stage of a turn's end.

    Attributes:
        OPEN: the turn accepts dispatches.
        ENDING: it accepts none any more; the facts of its end are not prepared yet.
        LAID_OUT: the facts of the end are fixed; each attempt appends the same facts.
        ENDED: the end is recorded.
    """

    OPEN = auto()
    ENDING = auto()
    LAID_OUT = auto()
    ENDED = auto()


Settling: TypeAlias = Mapping[DispatchId, Mapping[CallId, CallOutcome]]
"""Outcomes by dispatch and call."""


class EndPlan(msgspec.Struct, frozen=True):
    """The facts of a turn's end.

    Attributes:
        closed: the response once `drafts` are recorded.
        settling: outcomes of the calls that have none; reported once they are recorded.
    """

    closed: TurnClosed
    drafts: tuple[Draft, ...]
    settling: Settling


class TurnEnding:
    """The end of one turn. The first attempt comes from a request or a cause; a failed attempt can be repeated.

    Attributes:
        stage: changed only by the methods.
        attempt: the last attempt; settles with the end of the turn, or with the error that made the attempt fail.
        request: the parent's `EndTurn`; None if the turn ends for another cause, and once the turn is slim.
        cause: why the turn ends.
        laid_out: set in the stage `LAID_OUT`.
        closed: the end of the turn; set in the stage `ENDED`.
        fingerprint: of the request, if the end was found in the record or the turn is slim; empty without a request.
        found_on_record: another process ended the turn.
        asked_for_here: a request of the parent to this process ended the turn.
        unreported: the routing decision of an ended turn until it is reported; only if this process recorded the end.
    """

    __slots__ = (
        *("attempt", "cause", "closed", "fingerprint", "laid_out", "request", "stage", "unreported"),
        *("asked_for_here", "found_on_record"),
    )

    def __init__(self) -> None:
        self.stage = EndStage.OPEN
        self.attempt: FirstResult[TurnClosed | SubagentsError] | None = None
        self.request: EndTurnRequest | None = None
        self.cause: EndCause = PARENT_GONE
        self.laid_out: EndPlan | None = None
        self.closed: TurnClosed | None = None
        self.fingerprint: str | None = None
        self.unreported: RoutingRecord | None = None
        self.found_on_record = False
        self.asked_for_here = False

    def contradicts(self, request: EndTurnRequest) -> bool:
        """Return whether the turn was ended with other contents than those of `request`."""
        # This process has the request itself, unless another process ended the turn or the turn is slim.
        if self.fingerprint is None:
            return self.request is not None and self.request != request
        # An end without a request, e.g. by the reaper, contradicts none: the parent learns that the turn had ended.
        return self.fingerprint not in {"", end_fingerprint(request)}

    def begin(self, request: EndTurnRequest | None, cause: EndCause) -> FirstResult[TurnClosed | SubagentsError]:
        """Begin an attempt; only while no other attempt runs, and before the turn has ended.

        Args:
            request: the parent's request. The request of an earlier attempt takes precedence. No request is set once an
                end without one is laid out: that end may be on record already, and the parent then learns that the turn
                was ended before.
            cause: the cause of an end that no parent requests.
        """
        # Two attempts at once could lay out two different ends.
        if self.stage is EndStage.ENDED or not (self.attempt is None or self.attempt.settled):
            raise IllegalTransition("begin", self.stage)
        if self.stage is EndStage.OPEN:
            self.stage = EndStage.ENDING
        # Not changed once the facts are laid out: these contain the earlier request and cause, and may be on record.
        if self.stage is EndStage.ENDING:
            self.request = self.request or request
            self.cause = cause if self.request is None else BY_PARENT
        self.attempt = FirstResult()
        return self.attempt

    def lay_out(self, laid_out: EndPlan) -> EndPlan:
        """Fix the facts of the end; return them."""
        if self.stage is not EndStage.ENDING or self.attempt is None or self.attempt.settled:
            raise IllegalTransition("lay_out", self.stage)
        # From here on every attempt appends the same drafts, so that an end whose answer was lost is recognised by its
        # salts.
        self.stage, self.laid_out = EndStage.LAID_OUT, laid_out
        return laid_out

    def contradicted(self) -> None:
        """Drop the prepared facts, because the record contradicts them."""
        if self.stage is not EndStage.LAID_OUT:
            raise IllegalTransition("contradicted", self.stage)
        # The record refused the facts, so it does not have them: another end may be prepared.
        self.stage, self.laid_out = EndStage.ENDING, None

    def give_back(self) -> None:
        """Leave the end to another sidecar, and open the turn again. Not possible once the facts are laid out."""
        if self.stage is not EndStage.ENDING:
            raise IllegalTransition("give_back", self.stage)
        # Not from `LAID_OUT`: those facts may be recorded, and a turn that has ended must not accept dispatches.
        self.stage = EndStage.OPEN

    def recorded(self) -> EndPlan:
        """Note that the prepared facts are recorded; return them."""
        if self.stage is not EndStage.LAID_OUT or self.laid_out is None:
            raise IllegalTransition("recorded", self.stage)
        plan = self.laid_out
        self._ended(plan.closed)
        # Only here and not in `found`: an end that the record has may answer the request of another process.
        self.asked_for_here = self.request is not None
        return plan

    def found(self, closed: TurnClosed, fingerprint: str) -> None:
        """Set the end that the record has. It may be the one that was laid out here and never confirmed."""
        if self.stage is EndStage.ENDED:
            raise IllegalTransition("found", self.stage)
        self._ended(closed)
        self.fingerprint = fingerprint
        self.found_on_record = True

    def conclude(self, refused: SubagentsError | None) -> None:
        """Settle the attempt; `refused` is the error if the turn has not ended."""
        # `closed` first: the end may have been found in the record although the append of this attempt failed.
        result = self.closed or refused
        if self.attempt is None or result is None:
            raise IllegalTransition("conclude", self.stage)
        self.attempt.settle(result)

    def slim(self) -> None:
        """Keep only a fingerprint of the request, to compare repeated requests with: a narration may have 256 KiB."""
        if self.stage is not EndStage.ENDED:
            raise IllegalTransition("slim", self.stage)
        if self.fingerprint is None:
            self.fingerprint = "" if self.request is None else end_fingerprint(self.request)
        self.request = None

    def reported(self) -> None:
        """Note that the routing decision was reported."""
        if self.unreported is None:
            raise IllegalTransition("reported", self.stage)
        self.unreported = None

    def _ended(self, closed: TurnClosed) -> None:
        # This process reports the recorded end only if it is the one that was laid out here. Any other end is reported
        # by the process that recorded it; reports by both would count the turn twice.
        if self.laid_out is not None and self.laid_out.closed.routing == closed.routing:
            self.unreported = closed.routing
        self.stage, self.closed, self.laid_out = EndStage.ENDED, closed, None


def end_fingerprint(request: EndTurnRequest) -> str:
    """Return a digest that is equal for two requests that end a turn with the same contents."""
    contents = (request.integrations, request.narration, request.declared_intent_count, request.user_message)
    return sha256(msgspec.json.encode(contents)).hexdigest()
