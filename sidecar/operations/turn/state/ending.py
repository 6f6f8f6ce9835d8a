"""The end of a turn: one state machine, from its cause to the record."""

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
        OPEN: the turn takes dispatches.
        ENDING: it takes none any more; its end is not laid out yet.
        LAID_OUT: what is written of the end is fixed: a repeated try appends the same.
        ENDED: the end is on record.
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
        closed: what the end is answered with once `drafts` are on record.
        settling: outcomes of the calls that have none yet; told once they are on record.
    """

    closed: TurnClosed
    drafts: tuple[Draft, ...]
    settling: Settling


class TurnEnding:
    """The end of one turn. The first try comes from a request or a cause; a failed try can be repeated.

    Attributes:
        stage: changed by the methods only.
        attempt: the last try; settled with how the turn ended, or with why the try failed.
        request: the parent's `EndTurn`; None if the turn ends for another cause, and once the turn is slim.
        cause: why the turn ends.
        laid_out: set in the stage `LAID_OUT`.
        closed: how the turn ended; set in the stage `ENDED`.
        fingerprint: of the request, if the end was found on record or the turn is slim; empty without a request.
        found_on_record: the turn was ended by another process.
        asked_for_here: the turn was ended by its parent's request to this process.
        unreported: the routing decision of an ended turn until it is reported; only if this process wrote the end.
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
        """Return whether the turn is ended with other contents than those of `request`."""
        if self.fingerprint is None:
            return self.request is not None and self.request != request
        return self.fingerprint not in {"", end_fingerprint(request)}

    def begin(self, request: EndTurnRequest | None, cause: EndCause) -> FirstResult[TurnClosed | SubagentsError]:
        """Begin a try; only while none is under way, and before the turn has ended.

        Args:
            request: of the parent; that of an earlier try stays. None is taken once the end is laid out without one,
                which may be on record already: the parent finds that the turn was ended before.
            cause: of an end that no parent asks for.
        """
        if self.stage is EndStage.ENDED or not (self.attempt is None or self.attempt.settled):
            raise IllegalTransition("begin", self.stage)
        if self.stage is EndStage.OPEN:
            self.stage = EndStage.ENDING
        if self.stage is EndStage.ENDING:
            self.request = self.request or request
            self.cause = cause if self.request is None else BY_PARENT
        self.attempt = FirstResult()
        return self.attempt

    def lay_out(self, laid_out: EndPlan) -> EndPlan:
        """Fix the facts of the end; returns them."""
        if self.stage is not EndStage.ENDING or self.attempt is None or self.attempt.settled:
            raise IllegalTransition("lay_out", self.stage)
        self.stage, self.laid_out = EndStage.LAID_OUT, laid_out
        return laid_out

    def contradicted(self) -> None:
        """The record contradicts the prepared end, which must be prepared again."""
        if self.stage is not EndStage.LAID_OUT:
            raise IllegalTransition("contradicted", self.stage)
        self.stage, self.laid_out = EndStage.ENDING, None

    def give_back(self) -> None:
        """Leave the end to another sidecar: the turn is open again. Not once it is laid out."""
        if self.stage is not EndStage.ENDING:
            raise IllegalTransition("give_back", self.stage)
        self.stage = EndStage.OPEN

    def recorded(self) -> EndPlan:
        """The prepared end is recorded; returns it."""
        if self.stage is not EndStage.LAID_OUT or self.laid_out is None:
            raise IllegalTransition("recorded", self.stage)
        done = self.laid_out
        self._ended(done.closed)
        self.asked_for_here = self.request is not None
        return done

    def found(self, closed: TurnClosed, fingerprint: str) -> None:
        """The end was found on record, which may be the one that was laid out here and never confirmed."""
        if self.stage is EndStage.ENDED:
            raise IllegalTransition("found", self.stage)
        self._ended(closed)
        self.fingerprint = fingerprint
        self.found_on_record = True

    def conclude(self, refused: SubagentsError | None) -> None:
        """Settle the attempt to end the turn; `refused`: why it failed, unless the turn has ended."""
        told = self.closed or refused
        if self.attempt is None or told is None:
            raise IllegalTransition("conclude", self.stage)
        self.attempt.settle(told)

    def slim(self) -> None:
        """Keep only the part of the request that repetitions are compared with: a narration may have 256 KiB."""
        if self.stage is not EndStage.ENDED:
            raise IllegalTransition("slim", self.stage)
        if self.fingerprint is None:
            self.fingerprint = "" if self.request is None else end_fingerprint(self.request)
        self.request = None

    def reported(self) -> None:
        """The routing decision was reported."""
        if self.unreported is None:
            raise IllegalTransition("reported", self.stage)
        self.unreported = None

    def _ended(self, closed: TurnClosed) -> None:
        if self.laid_out is not None and self.laid_out.closed.routing == closed.routing:
            self.unreported = closed.routing
        self.stage, self.closed, self.laid_out = EndStage.ENDED, closed, None


def end_fingerprint(request: EndTurnRequest) -> str:
    """Return what two requests to end a turn with the same contents share."""
    contents = (request.integrations, request.narration, request.declared_intent_count, request.user_message)
    return sha256(msgspec.json.encode(contents)).hexdigest()
