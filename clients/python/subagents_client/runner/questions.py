"""What a sub-agent raises to ask back, and what it is given when it continues."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from subagents.runner.v1 import runner_pb2
from subagents_client.asking.messages import ANSWERERS, DECISIONS, KINDS
from subagents_client.asking.questions import Answerer, Decision, QuestionKind
from subagents_client.checking.requests import check_request


class AsksBack(Exception):
    """Raised by a sub-agent's function: it ends its attempt with a question. Use one of the subclasses.

    The call is suspended, and nothing waits. When the question is answered, the function is called anew, perhaps in
    another process, with `Run.continuation`. Text that was narrated before stays beside the question.

    Args:
        text: the question in words; 1 to 4096 characters.
        about: what it is about, e.g. the order; any JSON value, at most 16 KiB.
        state: what the function needs to continue; opaque, at most 64 KiB. It is kept in the record.
        expires_in: how long it can be answered; None: as long as the operator allows.

    Raises:
        TypeError, ValueError: `about` is not JSON.
    """

    kind: ClassVar[QuestionKind]
    answerer = Answerer.USER

    def __init__(
        self, text: str, *, about: Any = None, state: bytes = b"", expires_in: timedelta | None = None
    ) -> None:
        super().__init__(text)
        self.text, self.state, self.expires_in = text, state, expires_in
        self.about_json = "" if about is None else json.dumps(about, ensure_ascii=False, allow_nan=False)

    def to_message(self) -> runner_pb2.QuestionAsked:
        """Return it as the sidecar is told. Raises `InvalidRequest` if it is longer than a question may be."""
        message = runner_pb2.QuestionAsked(
            kind=f"QUESTION_KIND_{self.kind.name}",
            text=self.text,
            about_json=self.about_json,
            answerer=f"ANSWERER_{self.answerer.name}",
            state=self.state,
        )
        if self.expires_in is not None:
            message.expires_in.FromTimedelta(self.expires_in)
        check_request(message)
        return message


class NeedsInput(AsksBack):
    """The sub-agent needs a text.

    Args:
        answerer: who may answer: the user alone, or the orchestrator's model, too.
    """

    kind = QuestionKind.NEEDS_INPUT

    def __init__(
        self,
        text: str,
        *,
        about: Any = None,
        state: bytes = b"",
        expires_in: timedelta | None = None,
        answerer: Answerer = Answerer.USER,
    ) -> None:
        super().__init__(text, about=about, state=state, expires_in=expires_in)
        self.answerer = answerer


class NeedsApproval(AsksBack):
    """The sub-agent needs the user's decision, e.g. before a tool with an effect is called."""

    kind = QuestionKind.NEEDS_APPROVAL


class NeedsAuthorisation(AsksBack):
    """The sub-agent needs the user's authorisation at a service; `about` says where, e.g. `{"url": ...}`."""

    kind = QuestionKind.NEEDS_AUTHORISATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The work that a run continues. `Run.arguments` are those of the call that answers.

    Attributes:
        child_id: the delegated execution that asked.
        kind, question, about: what it asked; `about` None: nothing beyond the text.
        answer: in words; may be empty for a decision.
        decision: of a question for approval or authorisation; None for input.
        answered_by: who answered.
        state: as the function gave it.
    """

    child_id: str
    kind: QuestionKind
    question: str
    about: Any
    answer: str
    decision: Decision | None
    answered_by: Answerer
    state: bytes

    @property
    def approved(self) -> bool:
        """Whether the user approved or authorised."""
        return self.decision is Decision.APPROVED


def continuation_of(message: runner_pb2.RunRequest) -> Continuation | None:
    """Return what a run continues; None: it begins new work."""
    if not message.HasField("continuation"):
        return None
    given = message.continuation
    return Continuation(
        child_id=given.child_id,
        kind=KINDS.get(given.kind, QuestionKind.UNKNOWN),
        question=given.question,
        about=json.loads(given.about_json) if given.about_json else None,
        answer=given.answer.text,
        decision=DECISIONS.get(given.answer.decision),
        answered_by=ANSWERERS.get(given.answer.answered_by, Answerer.ORCHESTRATOR),
        state=given.state,
    )
