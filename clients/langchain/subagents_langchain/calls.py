"""Translates the tool calls of a model's response for the sidecar, and outcomes into tool messages."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages import ToolCall as LangChainCall

from subagents_client import CallOutcome, Outcome, ToolCall, failed_call
from subagents_langchain.outcomes.artifacts import artifact_of

PREFIX: Final = "ask_"
INTENTS: Final = "intent_count"
UNREADABLE: Final = "The arguments of this call are not valid JSON."


def is_sub_agent_call(name: str | None) -> bool:
    """Return whether a tool name is that of a sub-agent, even one that the surface lacks: the sidecar refuses it."""
    return (name or "").startswith(PREFIX)


def asks_sub_agents(message: AIMessage) -> bool:
    """Return whether a response calls a sub-agent, also with arguments that are not valid JSON."""
    return bool(readable_calls(message)) or any(is_sub_agent_call(one.tool_name) for one in unreadable_calls(message))


def readable_calls(message: AIMessage) -> Sequence[LangChainCall]:
    """Return the sub-agent calls that LangChain runs unless another middleware has answered them."""
    return [call for call in message.tool_calls if is_sub_agent_call(call["name"])]


def unreadable_calls(message: AIMessage) -> Sequence[ToolCall]:
    """Return the calls whose arguments LangChain could not read; it does not run them or show them to a middleware.

    The returned arguments are never a JSON object, so that the sidecar refuses each call with an outcome.
    """
    return [
        ToolCall(str(call["id"]), str(call["name"]), _no_object(str(call["args"] or "")))
        for call in message.invalid_tool_calls
        if call["id"]
    ]


def tool_call(call_id: str | None, name: str, arguments: Any) -> ToolCall:
    """Return a call for the sidecar, with its arguments as JSON text."""
    return ToolCall(str(call_id or ""), name, json.dumps(arguments, ensure_ascii=False))


def declared_intents(message: AIMessage) -> int:
    """Return the largest intent count that the calls of a response declare; 0 if they declare none."""
    counts: list[Any] = [call["args"].get(INTENTS) for call in message.tool_calls if is_sub_agent_call(call["name"])]
    return max((one for one in counts if isinstance(one, int) and not isinstance(one, bool) and one > 0), default=0)


def answer_to(call_id: str, name: str, outcome: CallOutcome) -> ToolMessage:
    """Return the tool message with the outcome of a call."""
    status = "success" if outcome.answered or outcome.question is not None else "error"
    return ToolMessage(
        outcome.tool_message(), name=name, tool_call_id=call_id, artifact=artifact_of(outcome), status=status
    )


def answer_to_unreadable(call: ToolCall, outcomes: Mapping[str, CallOutcome]) -> ToolMessage:
    """Return the tool message for an unreadable call: its outcome, or the reason if it calls another tool."""
    if is_sub_agent_call(call.tool_name):
        refused = replace(failed_call(call), outcome=Outcome.REFUSED)
        return answer_to(call.call_id, call.tool_name, outcomes.get(call.call_id, refused))
    return ToolMessage(UNREADABLE, name=call.tool_name, tool_call_id=call.call_id, status="error")


def _no_object(arguments: str) -> str:
    # A text that `json` nevertheless reads as an object is quoted, which makes it a JSON string.
    try:
        readable = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        readable = False
    return json.dumps(arguments) if readable else arguments
