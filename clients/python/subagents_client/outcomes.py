"""The calls of one model response and their outcomes, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum, unique
from typing import Final

from subagents_client.asking.questions import Answering, Question
from subagents_errors import Axis, SubagentsError


@unique
class Outcome(StrEnum):
    """How one call ended."""

    SUCCEEDED = "succeeded"
    """The sub-agent answered in full."""
    DEGRADED = "degraded"
    """The sub-agent answered, but lacked some data or used up a budget."""
    FAILED = "failed"
    """The call ran, but gave no answer, e.g. because of an error, a timeout, a cancellation or an unreachable host."""
    DROPPED = "dropped"
    """The call did not run: it was beyond the fan-out cap."""
    REFUSED = "refused"
    """The call did not run, e.g. because of an unknown tool, invalid arguments or a used-up cost budget."""
    NOT_STARTED = "not_started"
    """The call did not run, e.g. because no time was left."""
    SUSPENDED = "suspended"
    """The sub-agent asks a question; a later call carries the answer and continues the work."""


@unique
class CapBehaviour(StrEnum):
    """How the number of a response's calls compares with the fan-out cap."""

    UNSPECIFIED = "unspecified"
    WITHIN = "within"
    AT = "at"
    OVER = "over"


ANSWERED: Final = (Outcome.SUCCEEDED, Outcome.DEGRADED)
"""Outcomes whose narration and components the orchestrator can use for its answer."""

DATA_WAS_UNAVAILABLE: Final = "Note: some of the data needed for this answer was unavailable."
INCOMPLETE: Final = "Note: this answer may be incomplete."
NOTHING_TO_SAY: Final = "The request was carried out; there is nothing more to say about it."
SENTENCES: Final = {
    Outcome.FAILED: "This part of the request could not be answered right now.",
    Outcome.DROPPED: "This part of the request was not carried out: too much was asked at once.",
    Outcome.REFUSED: "This part of the request was not carried out: it was not asked in a valid way.",
    Outcome.NOT_STARTED: "This part of the request was not carried out: there was no time left for it.",
    Outcome.SUSPENDED: "This part of the request needs an answer of the user before it can be carried out.",
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of a model response.

    Attributes:
        call_id: the model's id of the call; unique in the dispatch.
        tool_name: `ask_<slot>`.
        arguments_json: JSON text of the arguments, exactly as the model wrote it; at most 64 KiB.
        answering: the answer to a question that the sub-agent asked in an earlier call; None: the call begins new work.
    """

    call_id: str
    tool_name: str
    arguments_json: str = "{}"
    answering: Answering | None = None


@dataclass(frozen=True, slots=True)
class Component:
    """A structured part of the answer, such as a list of offers, which the user's app renders.

    Attributes:
        name: the `render_*` tool that produced the component.
        tool_input_json: the input of the tool, as JSON text.
        component_data_json: the data that the app renders, as JSON text; must not be given to a model.
    """

    name: str
    tool_input_json: str
    component_data_json: str


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens that one call used, summed over all its attempts.

    Attributes:
        input_tokens: tokens that models read, including `cached_input_tokens`.
        output_tokens: tokens that models wrote.
        cached_input_tokens: input tokens that providers read from their caches; None if not reported.
        cost_usd: the exact cost in US dollars; None if a price is unknown.
    """

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int | None = None
    cost_usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class CallStatus:
    """Why a call did not fully succeed.

    Attributes:
        reason: a value of `subagents_errors.CallFailure`, or a newer one that this version does not know.
        axis: kind of failure: execution, data, or none for a call that never ran.
        message: one neutral English sentence that may be shown to a model.
    """

    reason: str
    axis: Axis
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """The result of one call. A dispatch returns exactly one outcome per call.

    Attributes:
        call_id: the id in the request.
        tool_name: the tool name in the request.
        sub_agent_id: the slot that was called; empty for an unknown tool.
        child_id: the execution of the call; empty if none was started.
        emission_index: position of the call among all calls of the turn, from 0.
        outcome: how the call ended.
        narration: text of the sub-agent, from which the orchestrator composes its answer. For a failed call, the text
            written before the failure: evidence for operators, not an answer; do not give it to a model.
        components: the results of the sub-agent's `render_*` tools, in order; show them only if `answered`.
        data_unavailable: whether data was unavailable; only if True may the answer say so (PC2-FR-10).
        status: why the call did not fully succeed; None if it did.
        attempts: number of attempts; 0 if the call never ran.
        duration: duration over all attempts; None if the call never ran.
        usage: tokens used; None if the runner reported none.
        question: the sub-agent's question if the call is suspended, else None.
    """

    call_id: str
    tool_name: str
    sub_agent_id: str
    child_id: str = ""
    emission_index: int = 0
    outcome: Outcome
    narration: str = ""
    components: Sequence[Component] = ()
    data_unavailable: bool = False
    status: CallStatus | None = None
    attempts: int = 0
    duration: timedelta | None = None
    usage: TokenUsage | None = None
    question: Question | None = None

    @property
    def answered(self) -> bool:
        """Whether the sub-agent answered: the outcome is succeeded or degraded."""
        return self.outcome in ANSWERED

    def tool_message(self) -> str:
        """Return the text of the tool message that answers the model's call; never empty.

        The text is the narration, with a caveat if data was missing, or one neutral sentence without codes, system
        names or exception text. Component data is omitted, because your client shows it to the user (PC1-FR-10).
        """
        if self.question is not None:
            asked = self.question.tool_message(self.tool_name)
            return f"{self.narration}\n\n{asked}" if self.narration else asked
        if not self.answered:
            message = self.status.message if self.status else ""
            return message or SENTENCES[self.outcome]
        caveat = ""
        if self.data_unavailable:
            caveat = DATA_WAS_UNAVAILABLE
        elif self.outcome is Outcome.DEGRADED:
            caveat = INCOMPLETE
        return "\n\n".join(part for part in (self.narration, caveat) if part) or NOTHING_TO_SAY


@dataclass(frozen=True, slots=True)
class IntentReport:
    """The intents of one model response.

    Attributes:
        declared: largest intent count that the model declared; 0 if it declared none.
        emitted: number of different sub-agents that the response called, before the fan-out cap was applied.
        failsafe: whether the model declared more intents than it called sub-agents; call the model once more.
        switched: whether the response called a sub-agent that the episode's last dispatching turn did not call.
        prior_context_missing: whether `switched` is True although `prior_context` was empty.
    """

    declared: int = 0
    emitted: int = 0
    failsafe: bool = False
    switched: bool = False
    prior_context_missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchResult:
    """The result of a dispatch.

    Attributes:
        dispatch_id: the id of the dispatch.
        outcomes: one for each call, in emission order.
        intents: the intents that the model declared and those that it called sub-agents for.
        cap: how the number of calls compares with the fan-out cap.
        overhead: the part of the duration that the sidecar did not spend waiting for sub-agents or data services.
        synthesised: whether the SDK made outcomes itself, because it could not get them from the sidecar.
        cause: why outcomes were synthesised; None if `synthesised` is False.
    """

    dispatch_id: str
    outcomes: Sequence[CallOutcome]
    intents: IntentReport = IntentReport()
    cap: CapBehaviour = CapBehaviour.UNSPECIFIED
    overhead: timedelta = timedelta(0)
    synthesised: bool = False
    cause: SubagentsError | None = None

    def questions(self) -> Mapping[str, Question]:
        """Return the questions of suspended calls by call id, in emission order."""
        return {one.call_id: one.question for one in self.outcomes if one.question is not None}

    def missing(self) -> Sequence[CallOutcome]:
        """Return the outcomes of the calls without an answer, in emission order."""
        return [one for one in self.outcomes if not one.answered]

    def outcome(self, call_id: str) -> CallOutcome:
        """Return the outcome of one call.

        Raises:
            KeyError: the dispatch had no such call.
        """
        for one in self.outcomes:
            if one.call_id == call_id:
                return one
        raise KeyError(call_id)

    def tool_messages(self) -> Sequence[tuple[str, str]]:
        """Return (call id, text of the tool message) for every call, in emission order.

        A message history needs these tool messages, because providers reject a tool call without an answer.
        """
        return [(one.call_id, one.tool_message()) for one in self.outcomes]
