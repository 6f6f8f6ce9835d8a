"""Sub-agents that each ask one question, and say what they were answered."""

from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from typing import Final

import subagents_client as sdk
from sidecar.policy.protocols import Answerer, Asked, NarrationPart, QuestionKind, RunFinished, RunnerEvent, RunRequest
from tests.support.fake_runner import ScriptedRunner

QUESTIONS: Final[Mapping[str, Asked]] = {
    "shop": Asked(QuestionKind.NEEDS_APPROVAL, "Order two pairs?"),
    "rewards": Asked(QuestionKind.NEEDS_INPUT, "Which size?", answerer=Answerer.ORCHESTRATOR),
    "support": Asked(QuestionKind.NEEDS_AUTHORISATION, "Log in at the shop."),
}


async def asks_once(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
    """Ask the question of the slot; then tell the answer."""
    given = request.continuation
    if given is None:
        yield RunFinished(asked=QUESTIONS[request.card.definition.slot])
        return
    answer = given.answering
    yield NarrationPart(f"{answer.answered_by.value}: {answer.decision and answer.decision.value} {answer.text!r}")
    yield RunFinished()


def message_of(slot: str) -> str:
    """Return what the Python SDK tells the model of the question of a slot."""
    asked = QUESTIONS[slot]
    kind, answerer = sdk.QuestionKind(asked.kind.value), sdk.Answerer(asked.answerer.value)
    question = sdk.Question(kind=kind, text=asked.text, answerer=answerer, expires_at=datetime.now(UTC), receipt="")
    return question.tool_message(f"ask_{slot}")
