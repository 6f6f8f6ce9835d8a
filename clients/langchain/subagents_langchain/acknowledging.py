"""Saying what is missing: computed from the tool messages, never from errors.

Twice: the composing model is told what is missing and asked to say so, and an answer that says nothing of the kind
gets a sentence appended. Where nothing is missing neither happens.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage

from subagents_client import CallOutcome, Outcome
from subagents_langchain.artifacts import outcome_in


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
class Lack:
    """One call that did not fully succeed.

    Attributes:
        missing: what.
        tool_name: `ask_<slot>`.
        request: what was asked, in the words of the orchestrator's model; may be empty.
    """

    missing: Missing
    tool_name: str
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """What is said to users of one language.

    Attributes:
        one_moment: preamble where the model wrote none; empty: no preamble then.
        nothing: no call was answered at all.
        answer, data, rest, turn: appended for what is missing, see `Missing`.
        admits: pattern of an answer that says by itself that something could not be had.
        defers: pattern of an answer that says by itself that something was left for later.
    """

    one_moment: str
    nothing: str
    answer: str
    data: str
    rest: str
    turn: str
    admits: str
    defers: str


ENGLISH: Final = Phrases(
    one_moment="One moment, I am looking that up.",
    nothing="Sorry, I could not help with that right now. Please try again in a moment.",
    answer="Sorry, I could not get an answer to one part of your request right now.",
    data="Sorry, some of the information for this was unavailable just now.",
    rest="This may not be everything.",
    turn="That was a lot at once, so I left part of it for later. Just ask me again.",
    admits=r"\b(sorry|apologi[sz]e|unfortunately|unable|unavailable|incomplete|may not be|could(n[\u2019']t| not)|"
    r"can(['\u2019]t|not)|was(n[\u2019']t| not) able)\b",
    defers=r"\b(later|at once|too much|one at a time|ask (me )?again)\b",
)
INSTRUCTION: Final = (
    "Not everything that was asked has a full answer. Say so in one short sentence of your own, in the user's language,"
    " without technical reasons and without names of tools or systems. What is missing:"
)
EXPLAINED: Final[Mapping[Missing, str]] = {
    Missing.ANSWER: "there is no answer right now",
    Missing.DATA: "data needed for it was unavailable",
    Missing.REST: "the answer may be incomplete",
    Missing.TURN: "it was too much at once and is left for later",
}


def lacks_in(messages: Sequence[BaseMessage]) -> Sequence[Lack]:
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
    found: list[Lack] = []
    response = -1
    made_good: dict[str, int] = {}
    places: list[int] = []
    for message in messages:
        response += isinstance(message, AIMessage)
        if outcome := outcome_in(message):
            missing = missing_in(outcome)
            if missing is None:
                made_good[outcome.tool_name] = response
            else:
                found.append(Lack(missing, outcome.tool_name, requests.get(outcome.call_id, "")))
                places.append(response)
    return [lack for lack, place in zip(found, places, strict=True) if made_good.get(lack.tool_name, -1) <= place]


def missing_in(outcome: CallOutcome) -> Missing | None:
    """Return what one outcome leaves missing; None if it fully succeeded."""
    match outcome.outcome:
        case Outcome.SUCCEEDED:
            return Missing.DATA if outcome.data_unavailable else None
        case Outcome.DEGRADED:
            return Missing.DATA if outcome.data_unavailable else Missing.REST
        case Outcome.DROPPED:
            return Missing.TURN
        case _:
            return Missing.ANSWER


def instruction(lacks: Sequence[Lack]) -> str:
    """Return what the composing model is told; empty if nothing is missing."""
    if not lacks:
        return ""
    lines = [f"- {one.tool_name}({one.request!r}): {EXPLAINED[one.missing]}" for one in lacks]
    return "\n".join([INSTRUCTION, *lines])


def unsaid(answer: str, lacks: Sequence[Lack], phrases: Phrases, *, nothing: bool) -> str:
    """Return the sentences that an answer lacks; empty if it says by itself what is missing, or nothing is.

    Args:
        answer: as the model composed it.
        lacks: what is missing.
        phrases: of the user's language.
        nothing: no call was answered at all.

    Source: PC1-FR-5b, PC2-FR-8b, PC2-FR-14a.
    """
    kinds = list(dict.fromkeys(one.missing for one in lacks))
    owed: list[str] = []
    if any(kind is not Missing.TURN for kind in kinds) and not re.search(phrases.admits, answer, re.IGNORECASE):
        said = {Missing.ANSWER: phrases.answer, Missing.DATA: phrases.data, Missing.REST: phrases.rest}
        owed += [phrases.nothing] if nothing else [said[kind] for kind in kinds if kind in said]
    if Missing.TURN in kinds and not re.search(phrases.defers, answer, re.IGNORECASE):
        owed.append(phrases.turn)
    return " ".join(owed)
