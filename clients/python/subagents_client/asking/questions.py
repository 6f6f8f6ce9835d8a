"""The question of a suspended call, and the answer that a later call carries."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum, unique
from typing import Final


@unique
class QuestionKind(StrEnum):
    """What a sub-agent needs before it can continue."""

    NEEDS_INPUT = "needs_input"
    NEEDS_APPROVAL = "needs_approval"
    NEEDS_AUTHORISATION = "needs_authorisation"
    UNKNOWN = "unknown"
    """A newer kind, which this version of the SDK does not know."""


@unique
class Answerer(StrEnum):
    """Who may answer a question, and who answered it."""

    USER = "user"
    """The user of the conversation, in person."""
    ORCHESTRATOR = "orchestrator"
    """The orchestrator's model. In `Question.answerer`: the model or the user."""


@unique
class Decision(StrEnum):
    """The answer to a question for approval or authorisation."""

    APPROVED = "approved"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class Answering:
    """The answer that a `ToolCall` carries. `Question.answered`, `approved` and `declined` create it.

    Attributes:
        receipt: the receipt of the question.
        text: the answer in words; at most 16384 characters.
        decision: the user's decision if approval or authorisation is needed; None for input.
        answered_by: who answered. The sidecar cannot verify it; never pass `USER` for an answer that a model wrote.
    """

    receipt: str = field(repr=False)
    text: str = ""
    decision: Decision | None = None
    answered_by: Answerer = Answerer.USER


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question of a suspended call.

    Store the question with the conversation until it is answered or expires. One call, usually of a later turn, can
    answer it.

    Attributes:
        kind: what the sub-agent needs.
        text: the question in words.
        about_json: subject of the question, as JSON text; empty: nothing beyond the words.
        answerer: who may answer.
        expires_at: time after which the question can no longer be answered.
        receipt: signed, expiring proof of the question; opaque. Do not give it to a model.
    """

    kind: QuestionKind
    text: str
    about_json: str = ""
    answerer: Answerer = Answerer.USER
    expires_at: datetime
    receipt: str = field(repr=False)

    def answered(self, text: str, by: Answerer = Answerer.USER) -> Answering:
        """Return an answer in words. Pass `ORCHESTRATOR` as `by` if a model wrote them."""
        return Answering(self.receipt, text, None, by)

    def approved(self, text: str = "") -> Answering:
        """Return the answer of a user who has approved, or has given the authorisation at the service."""
        return Answering(self.receipt, text, Decision.APPROVED)

    def declined(self, text: str = "") -> Answering:
        """Return the answer of a user who has declined; the sub-agent continues and gets this decision."""
        return Answering(self.receipt, text, Decision.DECLINED)

    def tool_message(self, tool_name: str) -> str:
        """Return the tool message for the model: the question, and how the model can get or give the answer."""
        if self.kind is QuestionKind.NEEDS_INPUT:
            by_model = self.answerer is Answerer.ORCHESTRATOR
            who = "Answer it if you know the answer, else ask the user" if by_model else "Ask the user"
            then = f"{who}. To answer, call {tool_name} again with the answer as the request."
        else:
            what = "authorise it" if self.kind is QuestionKind.NEEDS_AUTHORISATION else "approve or decline"
            then = f"Only the user can {what}, in the application. Tell the user what is asked; do not decide it."
        return f"{ASKS_BACK} {self.text}\n\n{then}"


ASKS_BACK: Final = "The assistant has not answered yet and asks back:"
