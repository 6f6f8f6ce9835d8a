"""Why one call of a dispatch did not succeed: values, not exceptions."""

from enum import IntEnum, StrEnum, unique


@unique
class Axis(IntEnum):
    """Which kind of failure a call had.

    Source: PC2 §5.8, TN-27. Axis 3 (some of a fan-out failed) belongs to the turn, never to one call.
    """

    NONE = 0
    EXECUTION = 1
    DATA = 2


@unique
class CallFailure(StrEnum):
    """The reason of one call's outcome. Each value is also one of `subagents.errors.v1.ErrorReason`."""

    ATTEMPT_TIMEOUT = "ATTEMPT_TIMEOUT"
    """The attempt ran past its timeout. Axis 1."""
    JOIN_DEADLINE = "JOIN_DEADLINE"
    """The dispatch had to settle before the call was through. Axis 1."""
    RUNNER_IDLE = "RUNNER_IDLE"
    """A streaming runner sent nothing for too long. Axis 1."""
    RUNNER_FAILED = "RUNNER_FAILED"
    """The sub-agent raised, or its host ended the attempt with an error. Axis 1."""
    RUNNER_UNAVAILABLE = "RUNNER_UNAVAILABLE"
    """The runner could not be reached. Axis 1."""
    RUNNER_BREAKER_OPEN = "RUNNER_BREAKER_OPEN"
    """The runner failed so often that it is not asked for a while. Axis 1."""
    RESULT_INVALID = "RESULT_INVALID"
    """The result broke its contract: no end, wrong component, inline component JSON. Axis 1."""
    RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
    """The result, or the number of its parts, was over the limit. Axis 1."""
    RESULT_EMPTY = "RESULT_EMPTY"
    """The sub-agent finished with nothing: no narration, no component, no word on missing data. Axis 1."""
    RECORD_UNAVAILABLE = "RECORD_UNAVAILABLE"
    """The outcome could not be recorded, so it is not passed on. Axis 1."""
    CALL_CANCELLED = "CALL_CANCELLED"
    """The caller cancelled the call, or left with `ON_DISCONNECT_CANCEL`. Axis 1."""
    TURN_OVER = "TURN_OVER"
    """The turn ended while the call was running. Axis 1."""
    INTERNAL = "INTERNAL"
    """A defect of the sidecar. Axis 1."""
    SIDECAR_UNREACHABLE = "SIDECAR_UNREACHABLE"
    """Made by the SDK when the sidecar is gone. Axis 1."""
    SIDECAR_LOST = "SIDECAR_LOST"
    """The sidecar that ran it stopped, and there was no attempt or time left for another. Axis 1."""
    EFFECT_UNKNOWN = "EFFECT_UNKNOWN"
    """A tool call that changes something was sent, its result is not known, and nothing repeats it. Axis 1."""
    DATA_UNAVAILABLE = "DATA_UNAVAILABLE"
    """The sub-agent finished without the data it needed. Axis 2."""
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    """The child's budget of time, tool calls or tokens ran out; what was there is returned. Axis 2."""
    OVER_CAP = "OVER_CAP"
    """Dropped before execution: more calls than the cap allows."""
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    """Refused: the tool is not on the turn's surface."""
    ARGUMENTS_INVALID = "ARGUMENTS_INVALID"
    """Refused: the arguments are not JSON, or do not fit the tool's schema."""
    COST_BUDGET = "COST_BUDGET"
    """Refused: the budget in money of the turn, or of the user's day, is used up."""
    DAILY_LIMIT_REACHED = "DAILY_LIMIT_REACHED"
    """Refused: the user's calls of this sub-agent are used up for today, in UTC."""
    DAILY_LIMIT_UNKNOWN = "DAILY_LIMIT_UNKNOWN"
    """Refused: the sub-agent has a daily limit, and the record cannot say how much of it is used."""
    NOT_STARTED = "NOT_STARTED"
    """The dispatch settled before this call's turn came."""
