"""The question of a suspended sub-agent, its answer, and the input of the sub-agent that continues.

The question ends its child: nothing keeps running while a user thinks. When the answer comes, a new child continues
with the state that the first one left.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum, unique
from hashlib import sha256
from types import MappingProxyType
from typing import Final

import msgspec

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.identifiers import ChildId, DispatchId, TurnId
from subagents_errors import CallFailure

# These limits keep facts small: question, answer and state are recorded, and read again at every restore of the turn.
LONGEST_QUESTION: Final = 4 * 1024
"""Characters of a question."""
LONGEST_ANSWER: Final = 16 * 1024
"""Characters of an answer."""
LARGEST_SUBJECT: Final = 16 * 1024
"""UTF-8 bytes of the JSON that a question is about."""
LARGEST_STATE: Final = 64 * 1024
"""Bytes of continuation state."""


@unique
class QuestionKind(StrEnum):
    """The kind of input that a sub-agent needs before it can continue."""

    NEEDS_INPUT = "needs_input"
    NEEDS_APPROVAL = "needs_approval"
    NEEDS_AUTHORISATION = "needs_authorisation"


@unique
class Answerer(StrEnum):
    """Who may answer a question, or has answered it."""

    USER = "user"
    """The user of the conversation, in person."""
    ORCHESTRATOR = "orchestrator"
    """The orchestrator's model, or the user."""


@unique
class Decision(StrEnum):
    """The answer to a question for approval or authorisation."""

    APPROVED = "approved"
    DECLINED = "declined"


REASON_OF: Final[Mapping[QuestionKind, CallFailure]] = MappingProxyType(
    {kind: CallFailure[kind.name] for kind in QuestionKind}
)
"""The reason of the suspended outcome."""


class Asked(msgspec.Struct, frozen=True):
    """The question that a runner reports at the end of an attempt.

    Attributes:
        about_json: the subject of the question, as JSON text; empty: nothing beyond the text.
        expires_in: the time for an answer; None, or more than the operator allows: the operator's limit.
        state: opaque; returned to the sub-agent that continues.
    """

    kind: QuestionKind
    text: str
    about_json: str = ""
    answerer: Answerer = Answerer.USER
    expires_in: timedelta | None = None
    state: bytes = b""


class Question(msgspec.Struct, frozen=True):
    """A recorded question.

    Attributes:
        receipt: signed; the answering call sends it back.
    """

    kind: QuestionKind
    text: str
    about_json: str
    answerer: Answerer
    expires_at: datetime
    receipt: str

    @property
    def digest(self) -> str:
        """The digest of the question in the receipt; hex."""
        return question_digest(self.kind, self.text, self.about_json)


class Answering(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a question, as part of a call.

    Attributes:
        decision: for a question about approval or authorisation; None for input.
        answered_by: as the client states; the client has authenticated the user.
    """

    receipt: str
    text: str = ""
    decision: Decision | None = None
    answered_by: Answerer = Answerer.USER


class AnsweredBy(msgspec.Struct, frozen=True):
    """The call that answered a question, and continues its work."""

    turn_id: TurnId
    dispatch_id: DispatchId
    place: int


class Continuation(msgspec.Struct, frozen=True):
    """The additional input of a sub-agent that continues.

    Attributes:
        turn_id, child_id: of the child that asked.
        state: as that child sent it.
    """

    turn_id: TurnId
    child_id: ChildId
    kind: QuestionKind
    question: str
    about_json: str
    answering: Answering
    state: bytes


def question_digest(kind: QuestionKind, text: str, about_json: str) -> str:
    """Return the SHA-256 of a question; hex."""
    return sha256(msgspec.json.encode((kind, text, about_json))).hexdigest()


def problem_of(asked: Asked) -> str:
    """Return why a question cannot be passed on; empty if it can. Quotes no part of it.

    A runner in the same process may report any object: a value that is no text or no bytes is a problem, not an error.
    """
    try:
        # Encoded first, so that a lone surrogate raises here, and not when the fact is written.
        about = asked.about_json.encode()
        asked.text.encode()
        # Not `bytes(asked.state)`: of a number, it would allocate so many bytes.
        state = memoryview(asked.state).nbytes
        problems = {
            "the question has no kind": not isinstance(asked.kind, QuestionKind),
            f"the question must have 1 to {LONGEST_QUESTION} characters": not asked.text.strip()
            or len(asked.text) > LONGEST_QUESTION,
            f"the continuation state must be at most {LARGEST_STATE} bytes": state > LARGEST_STATE,
            f"what the question is about must be at most {LARGEST_SUBJECT} bytes": len(about) > LARGEST_SUBJECT,
            "the question does not say who may answer": not isinstance(asked.answerer, Answerer),
            "the question expires before it is asked": asked.expires_in is not None
            and asked.expires_in <= timedelta(0),
            # The orchestrator's model reads texts of others. If it could approve, an injected text could cause an
            # effect.
            "only the user may approve or authorise": asked.kind is not QuestionKind.NEEDS_INPUT
            and asked.answerer is not Answerer.USER,
        }
        # Empty means that the question is about nothing beyond its text; JSON has no empty text.
        if about:
            from_json(asked.about_json)
    except (UnicodeEncodeError, DecodeError, AttributeError, TypeError):
        return "the question is not Unicode text, or what it is about is not JSON"
    return next((problem for problem, is_there in problems.items() if is_there), "")
