"""What a sub-agent asks back, and how a later call answers it."""

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
    """A newer one that this version does not know."""


@unique
class Answerer(StrEnum):
    """Who may answer a question, and who answered it."""

    USER = "user"
    """The user of the conversation, in person."""
    ORCHESTRATOR = "orchestrator"
    """The orchestrator's model. As who may answer: the model or the user."""


@unique
class Decision(StrEnum):
    """The answer to a question for approval or authorisation."""

    APPROVED = "approved"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class Answering:
    """The answer that a `ToolCall` brings; made by `Question.answered`, `approved` and `declined`.

    Attributes:
        receipt: of the question.
        text: the answer in words; at most 16384 characters.
        decision: of a question for approval or authorisation.
        answered_by: the sidecar believes it. Never say `USER` of what a model wrote.
    """

    receipt: str = field(repr=False)
    text: str = ""
    decision: Decision | None = None
    answered_by: Answerer = Answerer.USER


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a sub-agent asks back.

    Keep it with the conversation until it is answered or has expired; a call of a later turn answers it, once.

    Attributes:
        kind: what is needed.
        text: the question in words.
        about_json: what it is about, as JSON text; empty: nothing beyond the text.
        answerer: who may answer.
        expires_at: until when it can be answered.
        receipt: signed and opaque. Not for a model.
    """

    kind: QuestionKind
    text: str
    about_json: str = ""
    answerer: Answerer = Answerer.USER
    expires_at: datetime
    receipt: str = field(repr=False)

    def answered(self, text: str, by: Answerer = Answerer.USER) -> Answering:
        """Return an answer in words; `by` is `ORCHESTRATOR` for words that a model wrote."""
        return Answering(self.receipt, text, None, by)

    def approved(self, text: str = "") -> Answering:
        """Return that the user has approved, or has given the authorisation at the service."""
        return Answering(self.receipt, text, Decision.APPROVED)

    def declined(self, text: str = "") -> Answering:
        """Return that the user has declined; the sub-agent continues and is told so."""
        return Answering(self.receipt, text, Decision.DECLINED)

    def tool_message(self, tool_name: str) -> str:
        """Return what the model is told: the question, and what it can do about it."""
        if self.kind is QuestionKind.NEEDS_INPUT:
            by_model = self.answerer is Answerer.ORCHESTRATOR
            who = "Answer it if you know the answer, else ask the user" if by_model else "Ask the user"
            then = f"{who}. To answer, call {tool_name} again with the answer as the request."
        else:
            what = "authorise it" if self.kind is QuestionKind.NEEDS_AUTHORISATION else "approve or decline"
            then = f"Only the user can {what}, in the application. Tell the user what is asked; do not decide it."
        return f"{ASKS_BACK} {self.text}\n\n{then}"


ASKS_BACK: Final = "The assistant has not answered yet and asks back:"
