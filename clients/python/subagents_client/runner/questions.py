"""The exceptions with which a sub-agent asks a question, and the answer with which it continues."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from subagents.runner.v1 import runner_pb2
from subagents_client.asking.messages import ANSWERERS, DECISIONS, KINDS
from subagents_client.asking.questions import Answerer, Decision, QuestionKind
from subagents_client.checking.requests import check_request


class AsksBack(Exception):
    """A sub-agent's function raises a subclass of this exception to end its attempt with a question.

    The call is suspended; no process waits for the answer. When the question is answered, the host calls the function
    again, perhaps in another process, with `Run.continuation`. Text sent with `Run.narrate` accompanies the question.

    Args:
        text: the question in words; 1 to 4096 characters.
        about: subject of the question, e.g. an order; any JSON value of at most 16 KiB.
        state: data that the function needs to continue; opaque, at most 64 KiB. The sidecar records it.
        expires_in: how long the question can be answered; None: as long as the operator allows, the maximum.

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
        """Return the message for the sidecar. Raises `InvalidRequest` if the question exceeds a limit."""
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
        answerer: `USER`: only the user may answer; `ORCHESTRATOR`: the orchestrator's model may answer, too.
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
    """The sub-agent needs the user's authorisation at a service; `about` names the service, e.g. `{"url": ...}`."""

    kind = QuestionKind.NEEDS_AUTHORISATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The suspended work that a run continues. `Run.arguments` are the arguments of the call with the answer.

    Attributes:
        child_id: the child that asked the question.
        kind: what that child needed.
        question: the question in words.
        about: subject of the question; None: nothing beyond the words.
        answer: the answer in words; may be empty if there is a decision.
        decision: the user's decision if approval or authorisation was needed; None for input.
        answered_by: who answered.
        state: the state that the function passed with its question.
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
    """Return the suspended work that a run continues; None if the run begins new work."""
    if not message.HasField("continuation"):
        return None
    continuation = message.continuation
    return Continuation(
        child_id=continuation.child_id,
        kind=KINDS.get(continuation.kind, QuestionKind.UNKNOWN),
        question=continuation.question,
        about=json.loads(continuation.about_json) if continuation.about_json else None,
        answer=continuation.answer.text,
        decision=DECISIONS.get(continuation.answer.decision),
        answered_by=ANSWERERS.get(continuation.answer.answered_by, Answerer.ORCHESTRATOR),
        state=continuation.state,
    )
