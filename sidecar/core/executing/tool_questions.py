"""A question that a data service asks during a tool call, and its answer for the same call of the child that continues.

A question is passed on like an envelope: only if it says for whom it is, and the call was made for that user. Its state
is made by the sidecar, and a sub-agent cannot make one: a user's approval reaches a data service only if that service
asked for it.
"""

from hashlib import sha256
from typing import Final

import msgspec

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.dispatching.questions import LARGEST_STATE, Asked, Continuation, Decision, QuestionKind, problem_of
from sidecar.core.envelopes.verdicts import WithholdReason
from sidecar.core.executing.idempotency import comparable
from sidecar.core.identifiers import Principal, ToolId

MADE_HERE: Final = b"\0sidecar.subagents/tool-question\n"
LARGEST_SERVICE_STATE: Final = LARGEST_STATE // 2
"""Bytes of a connector's own state."""


class ServiceAnswer(msgspec.Struct, frozen=True):
    """What a connector is given with a call that a question of its service interrupted before.

    Attributes:
        question: as the service asked it; another question has not been answered.
        state: as the connector gave it with the question.
    """

    kind: QuestionKind
    question: str
    about_json: str
    text: str
    decision: Decision | None
    state: bytes


class EnricherAsks(msgspec.Struct, frozen=True):
    """The service did nothing and needs an answer of the user first. The call ends with this question.

    Attributes:
        asked: unchecked text of the service, as an envelope is.
        principal: whom the service says it asks; None: it does not say.
        nonce: as the service echoed it.
    """

    asked: Asked
    principal: str | None = None
    nonce: str | None = None

    def __repr__(self) -> str:
        """Show no text of the service, so that no log line can hold another user's data."""
        return f"EnricherAsks({self.asked.kind})"


class _InterruptedCall(msgspec.Struct, frozen=True):
    """The state of a question: the call that it interrupted."""

    tool_id: ToolId
    arguments: str
    state: bytes


class ToolAnswer(msgspec.Struct):
    """The answer that a child has for one of its calls.

    Attributes:
        taken_in: number of the attempt that has used it; an attempt may use it for one call.
    """

    tool_id: ToolId
    arguments: str
    answer: ServiceAnswer
    taken_in: int = 0

    def take(self, tool_id: ToolId, arguments_json: str, attempt: int) -> ServiceAnswer | None:
        """Return the answer for a call; None if it is for another call, or was used in this attempt."""
        if self.taken_in == attempt or (tool_id, digest_of(arguments_json)) != (self.tool_id, self.arguments):
            return None
        self.taken_in = attempt
        return self.answer


def digest_of(arguments_json: str) -> str:
    """Return the SHA-256 of a call's arguments; hex."""
    return sha256(comparable(arguments_json).encode()).hexdigest()


def problem_with(asked: Asked) -> str:
    """Return what keeps a service's question from being passed on; empty if nothing does."""
    problem = problem_of(asked)
    if not problem and len(asked.state) > LARGEST_SERVICE_STATE:
        return f"the state of a service's question must be at most {LARGEST_SERVICE_STATE} bytes"
    return problem


def reason_to_withhold(
    named: str | None, echoed: str | None, principal: Principal, nonce: str | None
) -> WithholdReason | None:
    """Return why a question is not for the user of a call; None if it is. Source: PC2-FR-12.

    Args:
        named: whom the service says it asks.
        echoed: the nonce that the service gave back.
        principal: the invoking user.
        nonce: the one sent; None if the service does not echo it.
    """
    if named is None:
        return WithholdReason.PRINCIPAL_ABSENT
    if not principal or named != principal:
        return WithholdReason.PRINCIPAL_MISMATCH
    return WithholdReason.NONCE_MISMATCH if nonce is not None and echoed != nonce else None


def asked_in_call(asked: Asked, tool_id: ToolId, arguments_json: str) -> Asked:
    """Return the question of a service with the call that it interrupted as its state."""
    kept = _InterruptedCall(tool_id, digest_of(arguments_json), asked.state)
    return msgspec.structs.replace(asked, state=MADE_HERE + msgspec.json.encode(kept))


def is_made_here(state: bytes) -> bool:
    """Return whether a continuation state claims to be of a service's question."""
    return state.startswith(MADE_HERE)


def split(continuation: Continuation) -> tuple[Continuation, ToolAnswer | None]:
    """Return what the sub-agent is given, and the answer that is for one of its tool calls."""
    if not is_made_here(continuation.state):
        return continuation, None
    given, plain = continuation.answering, msgspec.structs.replace(continuation, state=b"")
    try:
        kept = from_json(continuation.state[len(MADE_HERE) :], _InterruptedCall)
    except DecodeError:  # of another version: the service asks again
        return plain, None
    answer = ServiceAnswer(
        continuation.kind, continuation.question, continuation.about_json, given.text, given.decision, kept.state
    )
    return plain, ToolAnswer(kept.tool_id, kept.arguments, answer)
