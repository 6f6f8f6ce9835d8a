"""Outcomes as artifacts of tool messages: plain JSON values, which any checkpointer stores and returns unchanged.

LangGraph's strict serialisation rebuilds only its own classes; it would return a dataclass as a dict of raw values.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic import TypeAdapter, ValidationError

from subagents_client import CallOutcome, ToolCall, failed_call

KIND: Final = "subagents.call_outcome"
OUTCOMES: Final = TypeAdapter(CallOutcome)


def artifact_of(outcome: CallOutcome) -> dict[str, Any]:
    """Return an outcome as a dict of JSON values by field name, with a member `kind` that marks it as an outcome."""
    return {"kind": KIND, **OUTCOMES.dump_python(outcome, mode="json")}


def outcome_in(message: BaseMessage) -> CallOutcome | None:
    """Return the outcome in a tool message; None if the message does not answer a sub-agent call.

    If this version cannot read the outcome, e.g. because a newer version wrote it, a failed outcome is returned.
    """
    if not isinstance(message, ToolMessage) or not isinstance(message.artifact, dict):
        return None
    fields = dict(message.artifact)
    if fields.pop("kind", None) != KIND:
        return None
    try:
        return OUTCOMES.validate_python(fields)
    except ValidationError:
        return failed_call(ToolCall(message.tool_call_id, message.name or ""))


def dispatches_in(messages: Sequence[BaseMessage]) -> int:
    """Return how many responses among these messages have outcomes of sub-agents."""
    responses = accumulate(isinstance(message, AIMessage) for message in messages)
    return len({place for place, message in zip(responses, messages, strict=True) if outcome_in(message)})
