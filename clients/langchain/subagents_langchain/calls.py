"""Tool calls of a model's response as the sidecar takes them, and outcomes as answers to them."""

import json
from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, ToolMessage

from subagents_client import CallOutcome, Outcome, ToolCall

PREFIX: Final = "ask_"
INTENTS: Final = "intent_count"
UNREADABLE: Final = "The arguments of this call are not valid JSON."


def is_sub_agent_call(name: str | None) -> bool:
    """Whether a tool of that name is a sub-agent; of one that is not on the surface too: the sidecar refuses it."""
    return (name or "").startswith(PREFIX)


def sub_agent_calls(message: AIMessage) -> Sequence[ToolCall]:
    """Return the sub-agent calls of a response; those whose arguments could not be read come last, as they were.

    The sidecar refuses an unreadable one with an outcome of its own, so it is answered like any other.
    """
    calls = [
        ToolCall(str(call["id"] or ""), call["name"], json.dumps(call["args"], ensure_ascii=False))
        for call in message.tool_calls
        if is_sub_agent_call(call["name"])
    ]
    return [*calls, *(one for one in unreadable_calls(message) if is_sub_agent_call(one.tool_name))]


def unreadable_calls(message: AIMessage) -> Sequence[ToolCall]:
    """Return the calls whose arguments LangChain could not read as JSON, and which it therefore does not run."""
    return [
        ToolCall(str(call["id"]), str(call["name"]), str(call["args"] or ""))
        for call in message.invalid_tool_calls
        if call["id"]
    ]


def declared_intents(message: AIMessage) -> int:
    """Return the largest intent count that the calls of a response declare; 0 if they declare none."""
    counts: list[Any] = [call["args"].get(INTENTS) for call in message.tool_calls if is_sub_agent_call(call["name"])]
    return max((one for one in counts if isinstance(one, int) and not isinstance(one, bool) and one > 0), default=0)


def answer_to(call_id: str, name: str, outcome: CallOutcome | None) -> ToolMessage:
    """Return the answer to a call; one whose outcome is not known has failed."""
    known = outcome or CallOutcome(call_id=call_id, tool_name=name, sub_agent_id="", outcome=Outcome.FAILED)
    status = "success" if known.answered else "error"
    return ToolMessage(known.tool_message(), name=name, tool_call_id=call_id, artifact=known, status=status)


def answer_to_unreadable(call: ToolCall, outcome: CallOutcome | None) -> ToolMessage:
    """Return the answer to a call that LangChain does not run; one of the orchestrator's own tools is told why."""
    if is_sub_agent_call(call.tool_name):
        return answer_to(call.call_id, call.tool_name, outcome)
    return ToolMessage(UNREADABLE, name=call.tool_name, tool_call_id=call.call_id, status="error")
