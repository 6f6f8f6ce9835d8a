"""Questions of sub-agents as interrupts of the graph: a person answers, and the resumed graph continues the call."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any, Final, Protocol

from langchain_core.messages import ToolMessage
from langgraph.types import Command, interrupt

from subagents_client import Answering, CallOutcome, Decision, Question, QuestionKind, ToolCall
from subagents_langchain.calls import answer_to
from subagents_langchain.outcomes.artifacts import outcome_in

KIND: Final = "sub_agent_question"


class Continues(Protocol):
    """Sends a call that answers a question."""

    async def answer(self, call: ToolCall, number: int) -> CallOutcome:
        """Send the call that answers a question, and return its outcome.

        Args:
            call: the call with the answer.
            number: position of the question among those of its tool call, from 0.
        """
        ...


class UnfitAnswer(ValueError):
    """The value with which a graph was resumed is no answer to the question."""


async def with_answers(result: ToolMessage | Command[Any], call: Mapping[str, Any], sender: Continues) -> Any:
    """Return the result of a tool call after all questions of its sub-agent were answered.

    Each question interrupts the graph with `interrupt_of`. The application resumes the graph with a text, or with
    `{"text": ...}`, `{"decision": "approved"}` or `{"decision": "declined"}`. A resumed graph runs the tool call from
    its beginning; answers that were already sent have unchanged ids, so that the sidecar returns their outcomes.

    Args:
        result: first result of the tool call.
        call: the tool call, as LangChain has it.
        sender: sends the answers.

    Raises:
        GraphInterrupt: a person has to answer.
        UnfitAnswer: the graph was resumed with a value that is no answer.
    """
    call_id, name, arguments = str(call["id"]), str(call["name"]), json.dumps(call["args"], ensure_ascii=False)
    for number in count():
        outcome = outcome_in(result) if isinstance(result, ToolMessage) else None
        if outcome is None or outcome.question is None:
            return result
        answering = answering_of(outcome.question, interrupt(interrupt_of(outcome, outcome.question)))
        continued = await sender.answer(ToolCall(f"answer-{number}", name, arguments, answering), number)
        result = answer_to(call_id, name, replace(continued, call_id=call_id))
    raise AssertionError("numbers do not end")


def interrupt_of(outcome: CallOutcome, question: Question) -> dict[str, Any]:
    """Return the value of the interrupt, from which the application asks a person; it omits the receipt."""
    return {
        "kind": KIND,
        "call_id": outcome.call_id,
        "sub_agent_id": outcome.sub_agent_id,
        "needs": question.kind.value,
        "question": question.text,
        "about": json.loads(question.about_json) if question.about_json else None,
        "expires_at": question.expires_at.isoformat(),
    }


def answering_of(question: Question, said: Any) -> Answering:
    """Return the answer in the value with which a graph was resumed. Raises `UnfitAnswer` if it is no answer."""
    given = {"text": said} if isinstance(said, str) else said
    text = given.get("text", "") if isinstance(given, Mapping) else None
    if not isinstance(text, str):
        raise UnfitAnswer("resume with a text, or with a mapping that has `text` or `decision`")
    if question.kind is QuestionKind.NEEDS_INPUT:
        return question.answered(text)
    if given.get("decision") not in set(Decision):
        raise UnfitAnswer("resume with `decision`, which is `approved` or `declined`")
    return question.approved(text) if given["decision"] == Decision.APPROVED else question.declined(text)
