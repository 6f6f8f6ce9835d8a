"""One recorded attempt: every input from outside while it ran, with its time.

Offsets are microseconds since the attempt began. Each is greater than the previous one, so the order is unambiguous.
Stored as JSON in `AttemptRecorded.frames_json`.
"""

from enum import StrEnum, unique
from typing import Annotated, Final

import msgspec

from sidecar.core.decoding import DecodeError, JsonDecoder, from_json

VERSION: Final = 1
LARGEST: Final = 256 * 1024
"""Bytes of one attempt's frames; what is larger is cut, and cannot be replayed."""


Microseconds = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""At most what a float holds exactly: a replay computes with floats, and larger numbers raise there."""


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
    """Tokens so far; attempts that were recorded before providers' caches were counted have None for cached ones."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int | None = None


class FinishedFrame(_Frame, frozen=True, array_like=True, tag="finished"):
    """The runner ended."""

    data_unavailable: bool


class AskedFrame(_Frame, frozen=True, array_like=True, tag="asked"):
    """The runner ended with a question; see `Asked`."""

    data_unavailable: bool
    kind: str
    text: str
    about_json: str
    answerer: str
    expires_in: float | None
    state: bytes


class UnexpectedFrame(_Frame, frozen=True, array_like=True, tag="stray"):
    """Something that no runner may report; `what` is its class."""

    what: str


@unique
class Effect(StrEnum):
    """An action of the tool gateway that changes an outcome."""

    CALLED = "called"
    RELEASED = "released"
    WITHHELD = "withheld"
    BARRED = "barred"
    """Withheld, and the tool may not be asked again: another attempt is not made."""
    BUDGET = "budget"
    """A call was refused because the budget of tool calls was used up."""
    SENT = "sent"
    """A call that changes something goes out; its result is not known from here on."""
    SETTLED = "settled"
    """The result of such a call is known."""
    FINAL = "final"
    """The answer of such a call is too large to be kept for another attempt, hence none is made."""


class GatewayFrame(_Frame, frozen=True, array_like=True, tag="gateway"):
    """The tool gateway did something for the child."""

    effect: Effect
    tool: str


class DelegationFrame(_Frame, frozen=True, array_like=True, tag="delegation"):
    """The begin or the end of a delegation: its usage, and whether its data was withheld.

    Attributes:
        sent, unknown: how many effects it sent, and of how many of them the result is unknown.
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
        how: `ended` (no more events), `error` (a `RunnerError`), `cancelled` (itself), `raised` (anything else).
        what: the error's detail, or the class of what was raised.
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
    """A call that was stopped, whether it ran or not; `at` microseconds since its dispatch came."""

    dispatch_id: str
    call_id: str
    reason: str
    at: Microseconds


class RecordedAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """The inputs from outside in one attempt.

    Attributes:
        began: microseconds since the dispatch came.
        frames: in order; without an `EndFrame` or `FinishedFrame` the runner was still at work when it was stopped.
        pause: microseconds drawn as the wait before the next attempt; None if none was drawn.
        refused: why the next attempt was not made (`breaker`, `retry_budget`); depends on what other turns did.
        stopped_calls: of the turn, so far.
        incomplete: why the frames are not all there; empty if they are.
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
    """Return what is kept. Raises `UnicodeEncodeError` or `TypeError` for what is not JSON."""
    return _ENCODER.encode(attempt).decode()


def attempt_from_json(text: str) -> RecordedAttempt:
    """Read what is kept. Raises `ValueError` if it is of another version, or broken."""
    try:
        found = from_json(text, _Version).version
        if found != VERSION:
            raise ValueError(f"its frames are of version {found}; this sidecar reads version {VERSION}")
        return _DECODER.decode(text)
    except DecodeError as error:
        raise ValueError(f"its frames cannot be read: {error}") from None


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = JsonDecoder(RecordedAttempt)
