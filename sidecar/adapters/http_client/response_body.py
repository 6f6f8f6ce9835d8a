"""Reads the body of an HTTP response of a data service, up to a limit and without blocking the event loop."""

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Final

import httpcore

from sidecar.adapters.http_client.network import LARGEST_HEAD
from sidecar.policy.protocols import EnricherRefused, RefusalKind

GZIP: Final = 31
"""The value of zlib's `wbits` for a stream with a gzip header and checksum."""
LARGEST_PART: Final = 64 * 1024
"""Maximum number of bytes that are unpacked at a time."""
PIECES_AT_ONCE: Final = 64
"""Pieces that are read before other tasks of the event loop run. A piece takes about 20 us."""
FEW_PIECES: Final = 1024
"""Pieces of any size that a body may have. Further pieces are allowed at one for each `SMALL_PIECE` bytes."""
SMALL_PIECE: Final = 256


class Unreadable(Exception):
    """The body does not match its headers, or has too many chunks."""


async def body_of_response(response: httpcore.Response, max_bytes: int) -> bytes | EnricherRefused:
    """Return the unpacked body, or why it was not accepted.

    Args:
        response: the response, whose headers were read.
        max_bytes: maximum size of the unpacked body.
    """
    encoding = _header(response, b"content-encoding").lower() or b"identity"
    if encoding not in {b"identity", b"gzip"}:
        return EnricherRefused(RefusalKind.MALFORMED)
    # The declared length only serves to stop early. It may be wrong, so the received bytes are counted, too.
    declared = _header(response, b"content-length")
    if declared.isdigit() and int(declared) > max_bytes:
        return EnricherRefused(RefusalKind.TOO_LARGE)
    # Twice the limit, for the framing of chunks; the loop below limits the content itself.
    response.extensions["network_stream"].expect_body(2 * max_bytes + LARGEST_HEAD)
    unpack = Gunzip() if encoding == b"gzip" else None
    body = bytearray()
    try:
        async for piece in in_slices(response.aiter_stream()):
            for part in (piece,) if unpack is None else unpack.parts(piece):
                body += part
                if len(body) > max_bytes:
                    return EnricherRefused(RefusalKind.TOO_LARGE)
    except Unreadable:
        return EnricherRefused(RefusalKind.MALFORMED)
    # Without the checksum at its end, the content may be truncated.
    if unpack is not None and not unpack.complete:
        return EnricherRefused(RefusalKind.MALFORMED)
    return bytes(body)


def _header(response: httpcore.Response, name: bytes) -> bytes:
    """Return the value of a header; if it occurs several times, all values, separated by commas."""
    return b", ".join(value.strip() for each, value in response.headers if each.lower() == name)


async def in_slices(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, and let other tasks run after every `PIECES_AT_ONCE` pieces.

    Raises:
        Unreadable: there are too many pieces for their size. A service can send each byte as a chunk of its own, which
            costs far more time than the same bytes in one chunk.
    """
    number = received = 0
    async for piece in pieces:
        number += 1
        received += len(piece)
        if number > FEW_PIECES + received // SMALL_PIECE:
            raise Unreadable
        if number % PIECES_AT_ONCE == 0:
            # Pieces that were received already are returned without a wait, so no other task would run.
            await asyncio.sleep(0)
        yield piece


class Gunzip:
    """Unpacks gzip in small parts, so that a caller can stop before a few bytes have become gigabytes."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=GZIP)

    def parts(self, piece: bytes) -> Iterator[bytes]:
        """Yield the unpacked content of `piece` in parts of at most `LARGEST_PART` bytes.

        Each part is unpacked only when it is requested.

        Raises:
            Unreadable: the bytes are not gzip, or come after the end of the stream.
        """
        remaining = piece
        while remaining:
            try:
                part = self._stream.decompress(remaining, LARGEST_PART)
            except zlib.error:
                raise Unreadable from None
            # Bytes after the end, e.g. a second stream, are not covered by the checksum of the first.
            if self._stream.unused_data:
                raise Unreadable
            remaining = self._stream.unconsumed_tail
            yield part

    @property
    def complete(self) -> bool:
        """Whether the end of the stream was reached and its checksum is right."""
        return self._stream.eof
