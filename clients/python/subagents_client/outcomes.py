"""What the calls of one model response came to, as plain values."""

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
    """It answered, but without data it needed, or with a budget that ran out."""
    FAILED = "failed"
    """There is no answer: error, timeout, cancelled, unreachable."""
    DROPPED = "dropped"
    """Not run: more calls than the cap allows."""
    REFUSED = "refused"
    """Not run: unknown tool or unfit arguments."""
    NOT_STARTED = "not_started"
    """Not run: the dispatch had to settle before its turn came."""
    SUSPENDED = "suspended"
    """The sub-agent asks back; a later call answers and continues its work."""


@unique
class CapBehaviour(StrEnum):
    """Whether the calls stayed within the cap."""

    UNSPECIFIED = "unspecified"
    WITHIN = "within"
    AT = "at"
    OVER = "over"


ANSWERED: Final = (Outcome.SUCCEEDED, Outcome.DEGRADED)
"""Ends that leave something to compose an answer from."""

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
        call_id: as the model named it; unique in the dispatch.
        tool_name: `ask_<slot>`.
        arguments_json: the arguments as the model wrote them, at most 64 KiB of JSON text.
        answering: the answer to a question that the tool asked in an earlier call; None: the call begins new work.
    """

    call_id: str
    tool_name: str
    arguments_json: str = "{}"
    answering: Answering | None = None


@dataclass(frozen=True, slots=True)
class Component:
    """A structured piece of the answer, made by a `render_*` tool; both payloads are JSON text."""

    name: str
    tool_input_json: str
    component_data_json: str


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens used by one call, over all attempts.

    Attributes:
        cached_input_tokens: of the input tokens, those that providers read from their caches; None: not reported.
        cost_usd: the exact cost in US dollars; None: a price is unknown.
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
        axis: execution, data, or none for calls that were never run.
        message: one neutral English sentence, safe to show to a model.
    """

    reason: str
    axis: Axis
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """The outcome of one call. There is exactly one for each call, in emission order.

    Attributes:
        call_id: as in the request.
        tool_name: as in the request.
        sub_agent_id: the slot that was called; empty for an unknown tool.
        child_id: the execution of the call; empty if nothing was started.
        emission_index: position of the call among all calls of the turn, from 0.
        outcome: how it ended.
        narration: input for the orchestrator's composition. If failed: the text before the
            failure, as evidence; it is no answer, and must not be given to a model.
        components: the results of the sub-agent's `render_*` tools, in order; show them only if `answered`.
        data_unavailable: only then may the answer say that data was unavailable (PC2-FR-10).
        status: why it did not fully succeed; None if it did.
        attempts: attempts made; 0 if it was never run.
        duration: over all attempts; None if it was never run.
        usage: None if the runner reported none.
        question: the question of the sub-agent; only if the call is suspended.
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
        """Whether there is something to compose an answer from."""
        return self.outcome in ANSWERED

    def tool_message(self) -> str:
        """Return the answer to the model's tool call; never empty.

        It is the narration, with a caveat if data was missing, or one neutral sentence: no codes, no names of systems,
        no exception text. Component data is omitted, because your client shows it to the user (PC1-FR-10).
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
    """How many intents one model response had.

    Attributes:
        declared: largest count that the model declared; 0 if it declared none.
        emitted: distinct sub-agents called, before the cap.
        failsafe: the model declared more than it called: ask it once more for what is missing.
        switched: a sub-agent was called that the episode's last dispatching turn did not call.
        prior_context_missing: the intent switched, but `prior_context` was empty.
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
        intents: intents declared and emitted.
        cap: whether the calls stayed within the cap.
        overhead: time that was not spent waiting for sub-agents or data.
        synthesised: the SDK made the outcomes, because it could not get those of the sidecar.
        cause: why the outcomes are `synthesised`; otherwise None.
    """

    dispatch_id: str
    outcomes: Sequence[CallOutcome]
    intents: IntentReport = IntentReport()
    cap: CapBehaviour = CapBehaviour.UNSPECIFIED
    overhead: timedelta = timedelta(0)
    synthesised: bool = False
    cause: SubagentsError | None = None

    def questions(self) -> Mapping[str, Question]:
        """Return what sub-agents ask back, by call id, in emission order."""
        return {one.call_id: one.question for one in self.outcomes if one.question is not None}

    def missing(self) -> Sequence[CallOutcome]:
        """Return the outcomes of the calls that brought no answer, in emission order."""
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
        """Return (call id, text) for every call: all that a message history needs to be complete."""
        return [(one.call_id, one.tool_message()) for one in self.outcomes]
