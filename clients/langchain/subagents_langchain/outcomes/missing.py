"""The calls of a turn that did not fully succeed, computed from the outcomes in tool messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, unique

from langchain_core.messages import AIMessage, BaseMessage

from subagents_client import CallOutcome, Outcome
from subagents_langchain.outcomes.artifacts import outcome_in


@unique
class Missing(StrEnum):
    """What is missing in the result of one call."""

    ANSWER = "answer"
    """The call has no answer, e.g. because it failed, was refused or did not start."""
    DATA = "data"
    """The sub-agent answered, but data was unavailable."""
    REST = "rest"
    """The sub-agent answered, but the answer may be incomplete."""
    TURN = "turn"
    """The call did not run, because it was beyond the fan-out cap; the user can ask again."""


@dataclass(frozen=True, slots=True)
class MissingKind:
    """One call that did not fully succeed.

    Attributes:
        missing: what is missing in the result.
        tool_name: `ask_<slot>`.
        request: the request in words, written by the orchestrator's model; may be empty.
        call_id: id of the call; unique in the turn.
    """

    missing: Missing
    tool_name: str
    request: str
    call_id: str


def missing_calls_in(messages: Sequence[BaseMessage]) -> Sequence[MissingKind]:
    """Return the calls of one turn that did not fully succeed, in emission order.

    A call is omitted if a later response called its tool with full success.

    Args:
        messages: the messages of one turn; the outcomes are in the artifacts of its tool messages.
    """
    requests = {
        str(call["id"]): str(call["args"].get("request", ""))
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    found: dict[str, tuple[MissingKind, int]] = {}
    response = -1
    succeeded_at: dict[str, int] = {}
    for message in messages:
        response += isinstance(message, AIMessage)
        if outcome := outcome_in(message):
            missing = missing_in(outcome)
            if missing is None:
                succeeded_at[outcome.tool_name] = response
            else:
                request = requests.get(outcome.call_id, "")
                found[outcome.call_id] = MissingKind(missing, outcome.tool_name, request, outcome.call_id), response
    return [lack for lack, at in found.values() if succeeded_at.get(lack.tool_name, -1) <= at]


def missing_in(outcome: CallOutcome) -> Missing | None:
    """Return what is missing in one outcome; None if the call fully succeeded or asks the user a question."""
    match outcome.outcome:
        case Outcome.SUSPENDED if outcome.question is not None:
            return None
        case Outcome.SUCCEEDED:
            return Missing.DATA if outcome.data_unavailable else None
        case Outcome.DEGRADED:
            return Missing.DATA if outcome.data_unavailable else Missing.REST
        case Outcome.DROPPED:
            return Missing.TURN
        case _:
            return Missing.ANSWER
