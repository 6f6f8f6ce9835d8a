"""Records the inputs of a child, so that its turn can be replayed.

While an attempt runs, this code only appends to a list; the list is serialised once, when the child settles.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from sidecar.core.dispatching.outcomes import Usage
from sidecar.core.dispatching.questions import Asked
from sidecar.core.dispatching.result_checks import MOST_TOKENS
from sidecar.core.identifiers import AttemptId, ChildId
from sidecar.core.journal.attempt_frames import packed, unpacked
from sidecar.core.journal.encoding import UnreadableFact
from sidecar.core.replaying.frames import (
    LARGEST,
    AskedFrame,
    ComponentFrame,
    DelegationFrame,
    Effect,
    EndFrame,
    FinishedFrame,
    Frame,
    GatewayFrame,
    Narration,
    RecordedAttempt,
    Status,
    StoppedCall,
    StoppedFrame,
    UnexpectedFrame,
    UsageFrame,
)
from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    RunnerError,
    StatusReported,
    UsageReported,
)
from subagents_errors import CallFailure

FRAME_BYTES: Final = 32
"""Approximate size of a frame without its texts, in bytes. The exact size is known only after the serialisation."""
MICROSECONDS: Final = 1_000_000
TOO_LARGE: Final = f"over {LARGEST // 1024} KiB"
UNREADABLE: Final = "the sub-agent reported something that is no text"


class AttemptFrames:
    """The frames of one attempt.

    Attributes:
        entries: each input with its time, by the event loop's clock. Offsets in frames are 0 until `to_row` sets them.
        pause: the wait drawn before a next attempt, in seconds; None if none was drawn.
        refused: why no further attempt was made, e.g. `breaker`; empty without a refusal.
        incomplete: why the recording has a gap and cannot be replayed; empty if it has none.
    """

    __slots__ = ("attempt_id", "began", "entries", "incomplete", "number", "pause", "refused", "size")

    def __init__(self, attempt_id: AttemptId, number: int, began: float) -> None:
        """Begin at a time of the event loop's clock."""
        self.attempt_id = attempt_id
        self.number = number
        self.began = began
        self.entries: list[tuple[float, object]] = []
        self.size = 0
        self.pause: float | None = None
        self.refused = ""
        self.incomplete = ""

    def add(self, event: object, now: float) -> None:
        """Record one input, if there is room. Never raises."""
        if self.incomplete:
            return
        try:
            match event:
                case NarrationPart(text):
                    self.size += FRAME_BYTES + len(text)
                case ComponentMade(name, tool_input, data):
                    self.size += FRAME_BYTES + len(name) + len(tool_input) + len(data)
                case StatusReported(event_type, attributes):
                    lengths = [len(key) + len(value) for key, value in attributes.items()] if attributes else ()
                    self.size += FRAME_BYTES + len(event_type) + sum(lengths)
                case UsageReported(read, written, cached) if not _are_counts(read, written, cached or 0):
                    self.incomplete = UNREADABLE
                case RunFinished(_, asked) if asked is not None:
                    self.size += FRAME_BYTES + len(asked.text) + len(asked.about_json) + len(asked.state)
                case EndFrame(_, _, what):
                    self.size += FRAME_BYTES + len(what)
                case _:
                    self.size += FRAME_BYTES
        except (TypeError, AttributeError):
            self.incomplete = UNREADABLE
        if self.size > LARGEST:
            self.incomplete = TOO_LARGE
        if self.incomplete:
            # A recording with a gap cannot be replayed, so the memory of what was recorded before is freed at once.
            self.entries = []
        else:
            self.entries.append((now, event))

    def runner_ended(self, error: BaseException | None, now: float) -> None:
        """Record how the runner's stream ended."""
        if error is None:
            end = EndFrame(0, "ended", "", False, False)
        elif isinstance(error, RunnerError):
            end = EndFrame(0, "error", str(error.detail), error.transient, error.unreachable)
        elif isinstance(error, asyncio.CancelledError):
            end = EndFrame(0, "cancelled", "", False, False)
        else:
            # The class alone: the text of an unknown exception may contain anything, also data of a user.
            end = EndFrame(0, "raised", type(error).__name__, False, False)
        self.add(end, now)

    def to_row(self, received_at: float, stopped: tuple[StoppedCall, ...], narration: str) -> bytes:
        """Return the stored form, for an outcome with `narration`. Never raises.

        `received_at` is the arrival of the dispatch, by the event loop's clock.
        """
        whole = RecordedAttempt(
            began=max(0, round((self.began - received_at) * MICROSECONDS)),
            frames=_frames(self.entries, self.began),
            pause=None if self.pause is None else microseconds(self.pause),
            refused=self.refused,
            stopped_calls=stopped,
            incomplete=self.incomplete,
        )
        try:
            row = packed(whole, narration)
            unpacked(row, narration)  # a value of a wrong type can be encoded but not decoded
        except (UnreadableFact, UnicodeEncodeError, TypeError, ValueError, OverflowError):
            return packed(RecordedAttempt(incomplete=UNREADABLE), "")
        if len(row) > LARGEST * 2:  # the estimate counted characters, this counts bytes
            return packed(RecordedAttempt(incomplete=TOO_LARGE), "")
        return row


def _are_counts(*numbers: object) -> bool:
    """Return whether these are whole numbers that a row of frames can hold."""
    # Not `isinstance`, which accepts booleans.
    return all(type(number) is int and abs(number) <= MOST_TOKENS for number in numbers)


class ChildFrames:
    """The frames of one child, over all its attempts.

    `refused_at_once`: why the child could make no attempt at all, e.g. `breaker`; empty without a refusal.
    """

    __slots__ = ("attempts", "began", "refused_at_once")

    def __init__(self, began: float) -> None:
        """Begin at a time of the event loop's clock."""
        self.began = began
        self.attempts: list[AttemptFrames] = []
        self.refused_at_once = ""

    def begin(self, attempt_id: AttemptId, number: int, now: float) -> AttemptFrames:
        """Begin an attempt."""
        frames = AttemptFrames(attempt_id, number, now)
        self.attempts.append(frames)
        return frames

    def effect(self, effect: Effect, tool: str) -> None:
        """Record an action of the tool gateway for the child."""
        self._add(GatewayFrame(0, effect, tool))

    def delegating(self, child_id: ChildId) -> None:
        """Record the begin of a delegation."""
        self._add(DelegationFrame(0, child_id, False, 0, 0, False))

    def delegated(
        self, child_id: ChildId, used: Usage | None, *, barred: bool, sent: int = 0, unknown: int = 0
    ) -> None:
        """Record the result of a delegation, as far as it affects the delegating child."""
        spent = used or Usage()
        self._add(
            DelegationFrame(
                0,
                child_id,
                True,
                spent.input_tokens,
                spent.output_tokens,
                barred,
                spent.cached_input_tokens,
                sent,
                unknown,
            )
        )

    def _add(self, frame: Frame) -> None:
        # Before the first attempt nothing happens but a stop, which the dispatch records for its calls (`StoppedCall`).
        if self.attempts:
            # To the newest attempt: what happens in the pause before the next one belongs to the attempt before it.
            self.attempts[-1].add(frame, asyncio.get_running_loop().time())

    def stopped(self, reason: CallFailure) -> None:
        """Record that the call was stopped, except at the join deadline, which a replay computes."""
        # A replay computes the join deadline from the recorded time left.
        if reason is not CallFailure.JOIN_DEADLINE:
            self._add(StoppedFrame(0, reason.name))

    def paused(self, seconds: float) -> None:
        """Record the random wait before the next attempt."""
        self.attempts[-1].pause = seconds

    def refused(self, why: str) -> None:
        """Record why no further attempt was made."""
        if self.attempts:
            self.attempts[-1].refused = why
        else:
            self.refused_at_once = why

    def none_made(self) -> AttemptFrames:
        """Return the frames that represent a child without attempts."""
        # Number 0, which no attempt has. A replay must learn that none was made, and why.
        none = AttemptFrames(AttemptId(""), 0, self.began)
        none.refused = self.refused_at_once
        return none


def _frames(entries: Sequence[tuple[float, object]], began: float) -> tuple[Frame, ...]:
    """Return frames with increasing offsets."""
    frames: list[Frame] = []
    at = -1
    for added_at, event in entries:
        # Strictly increasing: a replay orders frames by their offset, and two inputs may come within one microsecond.
        at = max(at + 1, round((added_at - began) * MICROSECONDS))
        match event:
            case NarrationPart(text):
                frames.append(Narration(at, text))
            case StatusReported(event_type, attributes):
                frames.append(Status(at, event_type, dict(attributes)))
            case ComponentMade(name, tool_input, data):
                frames.append(ComponentFrame(at, name, tool_input, data))
            case UsageReported(read, written, cached):
                frames.append(UsageFrame(at, read, written, cached))
            case RunFinished(data_unavailable, asked) if asked is not None:
                frames.append(asked_frame(at, asked, data_unavailable=data_unavailable))
            case RunFinished(data_unavailable):
                frames.append(FinishedFrame(at, data_unavailable))
            case GatewayFrame() | DelegationFrame() | StoppedFrame() | EndFrame():
                frames.append(msgspec.structs.replace(event, at=at))
            case _:
                # A runner in this process can send objects of any type. A replay must know that one came here.
                frames.append(UnexpectedFrame(at, type(event).__name__))
    return tuple(frames)


def asked_frame(at: int, asked: Asked, *, data_unavailable: bool) -> AskedFrame:
    """Return a question in the form of a frame."""
    valid_for = None if asked.expires_in is None else asked.expires_in.total_seconds()
    texts = asked.kind.value, asked.text, asked.about_json, asked.answerer.value
    return AskedFrame(at, data_unavailable, *texts, valid_for, asked.state)


def microseconds(seconds: float) -> int:
    """Return a duration in the unit of frames."""
    return max(0, round(seconds * MICROSECONDS))
