"""Questions of sub-agents as interrupts of the graph: a person answers, and the call continues in the same run."""

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
        """Return the outcome of the call that answers the question of that number, from 0, of one tool call."""
        ...


class UnfitAnswer(ValueError):
    """What a graph was resumed with is no answer to the question."""


async def with_answers(result: ToolMessage | Command[Any], call: Mapping[str, Any], sender: Continues) -> Any:
    """Return the result of a tool call once its sub-agent asks nothing any more.

    Each question interrupts the graph with `interrupt_of`; it is resumed with a text, or with `{"text": ...}`,
    `{"decision": "approved"}` or `{"decision": "declined"}`. A graph that is resumed runs the call again: what
    was sent before is found again by its id.

    Args:
        result: of the call.
        call: LangChain's.
        sender: sends the answers.

    Raises:
        GraphInterrupt: a person has to answer.
        UnfitAnswer: the graph was resumed with something else.
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
    """Return what an application is given to ask a person; without the receipt."""
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
    """Return the answer that a graph was resumed with. Raises `UnfitAnswer`."""
    given = {"text": said} if isinstance(said, str) else said
    text = given.get("text", "") if isinstance(given, Mapping) else None
    if not isinstance(text, str):
        raise UnfitAnswer("resume with a text, or with a mapping that has `text` or `decision`")
    if question.kind is QuestionKind.NEEDS_INPUT:
        return question.answered(text)
    if given.get("decision") not in set(Decision):
        raise UnfitAnswer("resume with `decision`, which is `approved` or `declined`")
    return question.approved(text) if given["decision"] == Decision.APPROVED else question.declined(text)
