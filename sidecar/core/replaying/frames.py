"""One recorded attempt: every input from outside while it ran, with its time.

Offsets are microseconds since the attempt began. Each is greater than the previous one, so the order is unambiguous.
The record stores an attempt as MessagePack (`core/journal/attempt_frames.py`). Readers get it as JSON, in
`AttemptRecorded.frames_json`.
"""

from enum import StrEnum, unique
from typing import Annotated, Final

import msgspec

from sidecar.core.decoding import DecodeError, JsonDecoder, from_json

VERSION: Final = 1
# Frames are kept for diagnosis only; without a limit, one flooding runner could fill the record.
LARGEST: Final = 256 * 1024
"""The most bytes of one attempt's frames. A larger attempt is truncated, and cannot be replayed."""


Microseconds = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""At most what a float represents exactly: a replay computes with floats."""


# Arrays instead of objects: a frame can be one word of a stream, and names of fields would be most of its bytes.
class _Frame(msgspec.Struct, frozen=True, array_like=True):
    """`[kind, offset, ...]`."""

    at: Microseconds


class Status(_Frame, frozen=True, array_like=True, tag="status"):
    """A progress report."""

    named: str
    attributes: dict[str, str]


class Narration(_Frame, frozen=True, array_like=True, tag="narration"):
    """A piece of text."""

    text: str


class ComponentFrame(_Frame, frozen=True, array_like=True, tag="component"):
    """One component."""

    name: str
    tool_input_json: str
    component_data_json: str


class UsageFrame(_Frame, frozen=True, array_like=True, tag="usage"):
    """The token counts so far. Recordings from before cached tokens were counted have None for these."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int | None = None


class FinishedFrame(_Frame, frozen=True, array_like=True, tag="finished"):
    """The runner ended."""

    data_unavailable: bool


class AskedFrame(_Frame, frozen=True, array_like=True, tag="asked"):
    """The runner ended with a question; see `Asked`. `expires_in`: seconds."""

    data_unavailable: bool
    kind: str
    text: str
    about_json: str
    answerer: str
    expires_in: float | None
    state: bytes


class UnexpectedFrame(_Frame, frozen=True, array_like=True, tag="stray"):
    """An object that runners may not report; `what` is its class."""

    what: str


@unique
class Effect(StrEnum):
    """An action of the tool gateway that can change the outcome of the call."""

    CALLED = "called"
    RELEASED = "released"
    WITHHELD = "withheld"
    BARRED = "barred"
    """Data was withheld and the tool may not be called again, so no other attempt is made."""
    BUDGET = "budget"
    """A call was refused because the budget of tool calls was used up."""
    SENT = "sent"
    """A call with an effect is sent; from here on its result is unknown."""
    SETTLED = "settled"
    """The result of such a call is known."""
    FINAL = "final"
    """The answer of such a call is too large to be kept for another attempt, so none is made."""


class GatewayFrame(_Frame, frozen=True, array_like=True, tag="gateway"):
    """An action of the tool gateway for the child."""

    effect: Effect
    tool: str


class DelegationFrame(_Frame, frozen=True, array_like=True, tag="delegation"):
    """The begin or the end of a delegation: its usage, and whether its data was withheld.

    Attributes:
        sent, unknown: number of effects that it sent, and how many of them have an unknown result.
    """

    child_id: str
    over: bool
    input_tokens: int
    output_tokens: int
    barred: bool
    cached_input_tokens: int | None = None
    sent: int = 0
    unknown: int = 0


class StoppedFrame(_Frame, frozen=True, array_like=True, tag="stopped"):
    """The call was stopped during the attempt or the pause after it: cancelled, no listener left, or turn ended."""

    reason: str


class EndFrame(_Frame, frozen=True, array_like=True, tag="end"):
    """The end of the runner's stream, if it came before the sidecar ended the attempt.

    Attributes:
        how: `ended` (no more events), `error` (a `RunnerError`), `cancelled` (by the runner itself), `raised` (any
            other exception).
        what: the error's detail, or the class of the exception.
    """

    how: str
    what: str
    transient: bool
    unreachable: bool


Frame = (
    Status
    | Narration
    | ComponentFrame
    | UsageFrame
    | FinishedFrame
    | AskedFrame
    | UnexpectedFrame
    | GatewayFrame
    | DelegationFrame
    | StoppedFrame
    | EndFrame
)


class StoppedCall(msgspec.Struct, frozen=True):
    """A call that was stopped, whether it ran or not; `at`: microseconds since the begin of its dispatch."""

    dispatch_id: str
    call_id: str
    reason: str
    at: Microseconds


class RecordedAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """The recorded inputs of one attempt.

    Attributes:
        began: microseconds since the begin of the dispatch.
        frames: in order; without an `EndFrame` or `FinishedFrame` the runner was still running when it was stopped.
        pause: the random wait before the next attempt in microseconds; None if there was none.
        refused: why the next attempt was not made (`breaker`, `retry_budget`); this depends on other turns.
        stopped_calls: of the turn, so far.
        incomplete: why frames are missing; empty if they are complete.
    """

    version: int = VERSION
    began: Microseconds = 0
    frames: tuple[Frame, ...] = ()
    pause: Microseconds | None = None
    refused: str = ""
    stopped_calls: tuple[StoppedCall, ...] = ()
    incomplete: str = ""


class _Version(msgspec.Struct):
    version: int = VERSION


def attempt_to_json(attempt: RecordedAttempt) -> str:
    """Return the JSON form. Raises `UnicodeEncodeError` or `TypeError` for values that JSON cannot express."""
    return _ENCODER.encode(attempt).decode()


def attempt_from_json(text: str) -> RecordedAttempt:
    """Read the JSON form. Raises `ValueError` if it is damaged or of another version."""
    try:
        # The version first: a newer form would otherwise give a decoding error about some field.
        found = from_json(text, _Version).version
        if found != VERSION:
            raise ValueError(f"its frames are of version {found}; this sidecar reads version {VERSION}")
        return _DECODER.decode(text)
    except DecodeError as error:
        raise ValueError(f"its frames cannot be read: {error}") from None


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = JsonDecoder(RecordedAttempt)
