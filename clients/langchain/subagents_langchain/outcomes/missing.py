"""What the calls of a turn leave missing: computed from the outcomes in tool messages, never from errors."""

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
    """There is none: error, timeout, refused, no time left."""
    DATA = "data"
    """It was answered, but data was unavailable."""
    REST = "rest"
    """It was answered, but perhaps not in full."""
    TURN = "turn"
    """It was left for later: more was asked at once than the cap allows."""


@dataclass(frozen=True, slots=True)
class MissingKind:
    """One call that did not fully succeed.

    Attributes:
        missing: what.
        tool_name: `ask_<slot>`.
        request: what was asked, in the words of the orchestrator's model; may be empty.
        call_id: of the call; unique in the turn.
    """

    missing: Missing
    tool_name: str
    request: str
    call_id: str


def missing_calls_in(messages: Sequence[BaseMessage]) -> Sequence[MissingKind]:
    """Return what the calls of one turn leave missing, in emission order; empty if everything was answered in full.

    A call is made good by a later one of the same tool that was answered in full.

    Args:
        messages: of one turn; outcomes are taken from the artifacts of the tool messages.
    """
    requests = {
        str(call["id"]): str(call["args"].get("request", ""))
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    found: dict[str, tuple[MissingKind, int]] = {}
    response = -1
    made_good: dict[str, int] = {}
    for message in messages:
        response += isinstance(message, AIMessage)
        if outcome := outcome_in(message):
            missing = missing_in(outcome)
            if missing is None:
                made_good[outcome.tool_name] = response
            else:
                request = requests.get(outcome.call_id, "")
                found[outcome.call_id] = MissingKind(missing, outcome.tool_name, request, outcome.call_id), response
    return [lack for lack, place in found.values() if made_good.get(lack.tool_name, -1) <= place]


def missing_in(outcome: CallOutcome) -> Missing | None:
    """Return what one outcome leaves missing; None if it fully succeeded, or asks the user back."""
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
