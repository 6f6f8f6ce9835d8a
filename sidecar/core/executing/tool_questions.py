"""A question that a data service asks during a tool call, and the answer to it.

The child that continues the work repeats the call, and the service receives the answer with it. A question is forwarded
under the same condition as an envelope: it must name a user, and the call must have been made for that user.

The state of the question, bytes that name the interrupted call and come back with the answer, is created by the sidecar
only. A sub-agent cannot create one, so a user's approval reaches a data service only if that service has asked for it.
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
"""Beginning of the states of such questions. The state of a sub-agent's own question must not begin with it."""
LARGEST_SERVICE_STATE: Final = LARGEST_STATE // 2
"""Bytes of a connector's own state. The other half is room for its encoding (base64) and the interrupted call."""


class ServiceAnswer(msgspec.Struct, frozen=True):
    """The answer that a connector receives with the repeated call, which a question of its service had interrupted.

    Attributes:
        question: the question that was answered; any other question of the service is still open.
        about_json: the subject of the question, as JSON text; empty: nothing beyond the text of the question.
        state: the connector's own state, unchanged.
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
        asked: the question; unchecked text, like an envelope.
        principal: the user that the service names; None if it names none.
        nonce: the nonce that the service returned.
    """

    asked: Asked
    principal: str | None = None
    nonce: str | None = None

    def __repr__(self) -> str:
        """Show no text of the service, so that no log line can hold another user's data."""
        return f"EnricherAsks({self.asked.kind})"


class _InterruptedCall(msgspec.Struct, frozen=True):
    """The state of a question: the call that it interrupted.

    Attributes:
        arguments: their SHA-256, see `digest_of`.
        state: the connector's own state.
    """

    tool_id: ToolId
    arguments: str
    state: bytes


class ToolAnswer(msgspec.Struct):
    """The answer that a child has for one of its calls.

    Attributes:
        arguments: those of the call, as their SHA-256, see `digest_of`.
        taken_in: number of the attempt that has used it; an attempt may use it for one call.
    """

    tool_id: ToolId
    arguments: str
    answer: ServiceAnswer
    taken_in: int = 0  # attempts are numbered from 1

    def take(self, tool_id: ToolId, arguments_json: str, attempt: int) -> ServiceAnswer | None:
        """Return the answer for a call; None if it is for another call, or was used in this attempt."""
        # The same tool and the same arguments: an approval is for what the user saw, and for nothing else.
        if self.taken_in == attempt or (tool_id, digest_of(arguments_json)) != (self.tool_id, self.arguments):
            return None
        # Once per attempt: if the sub-agent repeats the call, the approval must not be used for a second effect.
        # Another attempt starts the work again and needs it.
        self.taken_in = attempt
        return self.answer


def digest_of(arguments_json: str) -> str:
    """Return the SHA-256 of a call's arguments; hex."""
    return sha256(comparable(arguments_json).encode()).hexdigest()


def problem_with(asked: Asked) -> str:
    """Return why a service's question cannot be forwarded; empty if it can."""
    problem = problem_of(asked)
    if not problem and len(asked.state) > LARGEST_SERVICE_STATE:
        return f"the state of a service's question must be at most {LARGEST_SERVICE_STATE} bytes"
    return problem


def reason_to_withhold(
    named: str | None, echoed: str | None, principal: Principal, nonce: str | None
) -> WithholdReason | None:
    """Return why a question is not for the user of a call; None if it is. Source: PC2-FR-12.

    Args:
        named: the user that the service names.
        echoed: the nonce that the service returned.
        principal: the user of the turn.
        nonce: the nonce that was sent; None if services behind this connector do not return it, so it is not checked.
    """
    if named is None:
        return WithholdReason.PRINCIPAL_ABSENT
    # An empty principal must not match an empty name: both would mean that no user was determined.
    if not principal or named != principal:
        return WithholdReason.PRINCIPAL_MISMATCH
    # After the check of the user: a question for another user is always counted as a mismatch of the user.
    return WithholdReason.NONCE_MISMATCH if nonce is not None and echoed != nonce else None


def asked_in_call(asked: Asked, tool_id: ToolId, arguments_json: str) -> Asked:
    """Return the question of a service with the call that it interrupted as its state."""
    kept = _InterruptedCall(tool_id, digest_of(arguments_json), asked.state)
    return msgspec.structs.replace(asked, state=MADE_HERE + msgspec.json.encode(kept))


def is_made_here(state: bytes) -> bool:
    """Return whether a continuation state has the form of a service's question."""
    return state.startswith(MADE_HERE)


def split(continuation: Continuation) -> tuple[Continuation, ToolAnswer | None]:
    """Return the continuation without the answer of a tool call, and that answer, if there is one."""
    if not is_made_here(continuation.state):
        return continuation, None
    # The sub-agent continues without a state: it starts its work again, and repeats the interrupted call.
    given, plain = continuation.answering, msgspec.structs.replace(continuation, state=b"")
    try:
        kept = from_json(continuation.state[len(MADE_HERE) :], _InterruptedCall)
    except DecodeError:  # of another version: the service asks again
        return plain, None
    answer = ServiceAnswer(
        continuation.kind, continuation.question, continuation.about_json, given.text, given.decision, kept.state
    )
    return plain, ToolAnswer(kept.tool_id, kept.arguments, answer)
