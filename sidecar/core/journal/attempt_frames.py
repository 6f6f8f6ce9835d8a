"""What a runner sent in an attempt, as a row of its own beside the facts: it goes earlier than they do.

The narration of the attempt that brought the answer is in the outcome already; its frames keep only how long each piece
was. Where the pieces do not add up to it, e.g. because an earlier attempt sent them, they are kept as they are.
"""

from typing import Final

import msgspec

from sidecar.core.decoding import DecodeError, MsgpackDecoder
from sidecar.core.journal.encoding import UnreadableFact
from sidecar.core.replaying.frames import Frame, Narration, RecordedAttempt

VERSION: Final = 1


class _Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`lengths`: characters of each piece of narration, if their texts are left out."""

    version: int
    attempt: RecordedAttempt
    lengths: tuple[int, ...] | None = None


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = MsgpackDecoder[_Packed](_Packed).decode


def packed(attempt: RecordedAttempt, narration: str) -> bytes:
    """Return an attempt as it is kept.

    Args:
        attempt: what came from outside.
        narration: of the outcome that its child settled with.
    """
    pieces, frames = list[str](), list[Frame]()
    for frame in attempt.frames:
        if isinstance(frame, Narration):
            pieces.append(frame.text)
            frame = Narration(frame.at, "")  # noqa: PLW2901  its text is in the outcome
        frames.append(frame)
    if not pieces or "".join(pieces) != narration:
        return _ENCODE(_Packed(VERSION, attempt))
    lengths = tuple(map(len, pieces))
    return _ENCODE(_Packed(VERSION, msgspec.structs.replace(attempt, frames=tuple(frames)), lengths))


def unpacked(kept: bytes, narration: str) -> RecordedAttempt:
    """Return what `packed` kept. Raises `UnreadableFact`."""
    try:
        found = _DECODE(kept)
    except DecodeError as error:
        raise UnreadableFact(f"the frames of an attempt cannot be read: {error}") from None
    if found.version != VERSION:
        raise UnreadableFact(f"the frames of an attempt are of version {found.version}; this sidecar reads {VERSION}")
    if found.lengths is None:
        return found.attempt
    begin, lengths, frames = 0, iter(found.lengths), list[Frame]()
    for frame in found.attempt.frames:
        if isinstance(frame, Narration):
            end = begin + next(lengths, 0)
            frames.append(Narration(frame.at, narration[begin:end]))
            begin = end
        else:
            frames.append(frame)
    return msgspec.structs.replace(found.attempt, frames=tuple(frames))
