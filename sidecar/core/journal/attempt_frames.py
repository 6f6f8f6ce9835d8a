"""Encodes the frames that a runner sent in one attempt: a row of its own, which retention removes before the facts.

The outcome of a call already has the narration of the successful attempt. The frames of this attempt therefore keep
only the length of each piece. If the pieces do not add up to the outcome's narration, e.g. in an earlier attempt that
failed, their texts are kept.
"""

from typing import Final

import msgspec

from sidecar.core.decoding import DecodeError, MsgpackDecoder
from sidecar.core.journal.encoding import UnreadableFact
from sidecar.core.replaying.frames import Frame, Narration, RecordedAttempt

VERSION: Final = 1


class _Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`lengths`: characters of each piece of narration; None if the frames have their texts."""

    version: int
    attempt: RecordedAttempt
    lengths: tuple[int, ...] | None = None


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = MsgpackDecoder[_Packed](_Packed).decode


def packed(attempt: RecordedAttempt, narration: str) -> bytes:
    """Return an attempt in its stored form.

    Args:
        attempt: the frames of one attempt.
        narration: the narration in the outcome of the call.
    """
    pieces, frames = list[str](), list[Frame]()
    for frame in attempt.frames:
        if isinstance(frame, Narration):
            pieces.append(frame.text)
            frame = Narration(frame.at, "")  # noqa: PLW2901  the outcome has the text
        frames.append(frame)
    # Compared and not assumed: a child without a call (a delegation) has no outcome with its narration, and an earlier
    # attempt may have sent another text.
    if not pieces or "".join(pieces) != narration:
        return _ENCODE(_Packed(VERSION, attempt))
    lengths = tuple(map(len, pieces))
    return _ENCODE(_Packed(VERSION, msgspec.structs.replace(attempt, frames=tuple(frames)), lengths))


def unpacked(kept: bytes, narration: str) -> RecordedAttempt:
    """Return the attempt that `packed` has encoded, for the same narration. Raises `UnreadableFact`."""
    try:
        found = _DECODE(kept)
    except DecodeError as error:
        raise UnreadableFact(f"the frames of an attempt cannot be read: {error}") from None
    if found.version != VERSION:
        # A newer sidecar of the deployment wrote them; guessing would replay something that never happened.
        raise UnreadableFact(f"the frames of an attempt are of version {found.version}; this sidecar reads {VERSION}")
    if found.lengths is None:
        return found.attempt
    begin, lengths, frames = 0, iter(found.lengths), list[Frame]()
    for frame in found.attempt.frames:
        if isinstance(frame, Narration):
            # A missing length counts as 0: a damaged row must not end the reading with `StopIteration`.
            end = begin + next(lengths, 0)
            frames.append(Narration(frame.at, narration[begin:end]))
            begin = end
        else:
            frames.append(frame)
    return msgspec.structs.replace(found.attempt, frames=tuple(frames))
