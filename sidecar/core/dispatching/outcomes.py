"""The outcome of one call, which its parent gets, and the sentences that an orchestrator's model reads about it.

`run_child` produces an outcome for each call that ran, and `plan` for each call that is refused. The outcome is
recorded before the orchestrator receives it.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

import msgspec

from sidecar.core.dispatching.questions import Question
from sidecar.core.identifiers import CallId, ChildId, Slot
from subagents_errors import Axis, CallFailure


@unique
class Outcome(StrEnum):
    """The kind of a call's outcome. Source: DESIGN section 3."""

    SUCCEEDED = "succeeded"
    DEGRADED = "degraded"
    SUSPENDED = "suspended"
    FAILED = "failed"
    DROPPED = "dropped"
    REFUSED = "refused"
    NOT_STARTED = "not_started"


class Component(msgspec.Struct, frozen=True):
    """A structured piece of an answer, created by a `render_*` tool."""

    name: str
    tool_input_json: str
    component_data_json: str


class Usage(msgspec.Struct, frozen=True):
    """Tokens, over all attempts.

    Attributes:
        cached_input_tokens: input tokens that providers read from their caches; None: no provider reported any.
        cost: in units of `money`; None: unknown, because a price is.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int | None = None
    cost: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        known = [each for each in (self.cached_input_tokens, other.cached_input_tokens) if each is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            # The known part is a lower bound, which is more useful than nothing.
            sum(known) if known else None,
            self._cost_with(other),
        )

    def _cost_with(self, other: "Usage") -> int | None:
        """Return the cost of both; unknown if one of them is unknown, unless that one has no tokens."""
        # A part without tokens costs nothing, whether its price is known or not.
        costs = [each.cost for each in (self, other) if each.input_tokens or each.output_tokens]
        known = [cost for cost in costs if cost is not None]
        # Two parts without tokens: no price was looked up, so the cost stays unknown.
        return sum(known) if known and len(known) == len(costs) else None

    @property
    def total(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


class Answer(msgspec.Struct, frozen=True):
    """The answer of a sub-agent's attempt that passed the checks."""

    narration: str = ""
    components: tuple[Component, ...] = ()
    data_unavailable: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it contains nothing, not even the statement that data is missing."""
        return not (self.narration.strip() or self.components or self.data_unavailable)


class CallOutcome(msgspec.Struct, frozen=True):
    """The one outcome of one call.

    Attributes:
        sub_agent_id: None for an unknown tool.
        child_id: None if no child was started.
        emission_index: over all dispatches of the turn, from 0.
        reason: None only if it succeeded.
        question: the question of a suspended sub-agent, unless its text was erased.
        hint: what the model can do about it, without any of the call's arguments. Empty: nothing beyond the reason.
        answer: for a failed call, what the sub-agent had sent before; this is evidence, not an answer.
        duration: None if the call was never run.
    """

    call_id: CallId
    tool_name: str
    sub_agent_id: Slot | None
    child_id: ChildId | None
    emission_index: int
    outcome: Outcome
    reason: CallFailure | None = None
    answer: Answer = Answer()
    attempts: int = 0
    duration: timedelta | None = None
    usage: Usage | None = None
    hint: str = ""
    question: Question | None = None

    @property
    def answered(self) -> bool:
        """Whether `answer` is an answer: the call succeeded or was degraded."""
        return self.outcome in (Outcome.SUCCEEDED, Outcome.DEGRADED)

    @property
    def axis(self) -> Axis:
        """The failure axis. Source: TN-27."""
        return AXIS_OF[self.outcome]

    @property
    def message(self) -> str:
        """The sentence for a model; empty if the call succeeded."""
        if self.reason is None:
            return ""
        return f"{MESSAGE_OF[self.reason]} {self.hint}".rstrip()


AXIS_OF: Final[Mapping[Outcome, Axis]] = {
    # First all outcomes, then the exceptions: a kind that is added later is no failure by default.
    **dict.fromkeys(Outcome, Axis.NONE),
    Outcome.DEGRADED: Axis.DATA,
    Outcome.FAILED: Axis.EXECUTION,
}
"""The failure axis of each outcome."""


def axis_of(outcome: Outcome) -> Axis:
    """Return the failure axis of an outcome: data if it was degraded, execution if it failed."""
    return AXIS_OF[outcome]


_NO_ANSWER = "The assistant could not answer this time."

MESSAGE_OF: Final[Mapping[CallFailure, str]] = MappingProxyType(
    {
        # Reasons that a model should treat alike share a sentence; operators see the reason itself.
        CallFailure.ATTEMPT_TIMEOUT: "The assistant took too long and gave no answer.",
        CallFailure.JOIN_DEADLINE: "The assistant took too long and gave no answer.",
        CallFailure.RUNNER_IDLE: "The assistant took too long and gave no answer.",
        CallFailure.RUNNER_FAILED: _NO_ANSWER,
        CallFailure.RUNNER_UNAVAILABLE: "The assistant cannot be reached at the moment.",
        CallFailure.RUNNER_BREAKER_OPEN: "The assistant cannot be reached at the moment.",
        CallFailure.RESULT_INVALID: _NO_ANSWER,
        CallFailure.RESULT_TOO_LARGE: _NO_ANSWER,
        CallFailure.RESULT_EMPTY: _NO_ANSWER,
        CallFailure.RECORD_UNAVAILABLE: _NO_ANSWER,
        CallFailure.CALL_CANCELLED: "The request was cancelled before there was an answer.",
        CallFailure.TURN_OVER: "The turn ended before there was an answer.",
        CallFailure.INTERNAL: _NO_ANSWER,
        CallFailure.SIDECAR_LOST: _NO_ANSWER,
        CallFailure.EFFECT_UNKNOWN: (
            "The assistant began to change something, and it is not known whether that happened. "
            "Do not ask again before the user has confirmed that it did not happen."
        ),
        CallFailure.SIDECAR_UNREACHABLE: "The assistant cannot be reached at the moment.",
        CallFailure.DATA_UNAVAILABLE: "Some of the data that the answer needs is not available at the moment.",
        CallFailure.BUDGET_EXHAUSTED: "The assistant ran out of its budget; the answer may be incomplete.",
        CallFailure.OVER_CAP: "Not asked: too many assistants were called at once. Ask again if it is still needed.",
        CallFailure.UNKNOWN_TOOL: "Not asked: there is no such assistant in this conversation turn.",
        CallFailure.ARGUMENTS_INVALID: "Not asked: the arguments do not fit the tool's schema.",
        CallFailure.COST_BUDGET: "Not asked: the budget is used up.",
        CallFailure.DAILY_LIMIT_REACHED: "Not asked: it was asked as often today as it may be for one user.",
        CallFailure.DAILY_LIMIT_UNKNOWN: "Not asked: the assistant cannot be reached at the moment.",
        CallFailure.NOT_STARTED: "Not asked: time ran out before its turn came.",
        CallFailure.NEEDS_INPUT: "The assistant asks back and cannot continue without an answer.",
        CallFailure.NEEDS_APPROVAL: "The assistant asks for the user's approval and cannot continue without it.",
        CallFailure.NEEDS_AUTHORISATION: "The assistant needs the user's authorisation and cannot continue without it.",
        CallFailure.QUESTION_REFUSED: "The assistant asked back where no answer is possible.",
        CallFailure.RECEIPT_UNKNOWN: "Not continued: the question is no longer known. Ask again.",
        CallFailure.RECEIPT_USED: "Not continued: the question was answered before.",
        CallFailure.RECEIPT_EXPIRED: "Not continued: the question has expired. Ask again.",
        CallFailure.RECEIPT_OTHER_PRINCIPAL: "Not continued: the question is not this user's.",
        CallFailure.RECEIPT_OTHER_EPISODE: "Not continued: the question was asked in another conversation.",
        CallFailure.RECEIPT_OTHER_SUB_AGENT: "Not continued: another assistant asked the question.",
        CallFailure.RECEIPT_DEFINITION_CHANGED: "Not continued: the assistant was replaced meanwhile. Ask again.",
        CallFailure.RECEIPT_OTHER_ANSWERER: "Not continued: only the user may answer this question.",
    }
)
"""Neutral sentences for a model: no exception text, no codes, no names of systems (PC2-FR-14b, TN-31)."""
