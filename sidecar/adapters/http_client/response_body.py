"""Reads a response without holding more of it than allowed, and without blocking the event loop."""

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Final

import httpcore

from sidecar.adapters.http_client.network import LARGEST_HEAD
from sidecar.policy.protocols import EnricherRefused, RefusalKind

GZIP: Final = 31
"""`wbits` for a stream with a gzip header and checksum."""
LARGEST_PART: Final = 64 * 1024
"""The most bytes that are unpacked at a time."""
PIECES_AT_ONCE: Final = 64
"""Pieces that are read before the event loop gets a turn; a piece takes about 20 us."""
FEW_PIECES: Final = 1024
"""Pieces of any size that a body may have. Beyond them it may have one piece for each `SMALL_PIECE` bytes."""
SMALL_PIECE: Final = 256


class Unreadable(Exception):
    """The body does not match its headers, or has too many chunks."""


async def body_of_response(response: httpcore.Response, max_bytes: int) -> bytes | EnricherRefused:
    """Return the decoded body. The length in the headers is used only to stop early, and never trusted."""
    encoding = _header(response, b"content-encoding").lower() or b"identity"
    if encoding not in {b"identity", b"gzip"}:
        return EnricherRefused(RefusalKind.MALFORMED)
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
    # The checksum at the end was not seen, so the content may be cut off.
    if unpack is not None and not unpack.complete:
        return EnricherRefused(RefusalKind.MALFORMED)
    return bytes(body)


def _header(response: httpcore.Response, name: bytes) -> bytes:
    """Return a header's values; of a header that occurs twice, all of them."""
    return b", ".join(value.strip() for each, value in response.headers if each.lower() == name)


async def in_slices(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, and give the event loop a turn now and then: one chunk can be one byte.

    Raises:
        Unreadable: there are too many pieces for so few bytes.
    """
    number = received = 0
    async for piece in pieces:
        number += 1
        received += len(piece)
        if number > FEW_PIECES + received // SMALL_PIECE:
            raise Unreadable
        if number % PIECES_AT_ONCE == 0:
            await asyncio.sleep(0)
        yield piece


class Gunzip:
    """Decompresses in small parts: a bomb is detected before it is unpacked, and data after the end is rejected."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=GZIP)

    def parts(self, piece: bytes) -> Iterator[bytes]:
        """Yield what `piece` unpacks to, at most `LARGEST_PART` bytes at a time and only as far as it is asked for.

        Raises:
            Unreadable: it is not gzip, or comes after the end of the stream.
        """
        left = piece
        while left:
            try:
                part = self._stream.decompress(left, LARGEST_PART)
            except zlib.error:
                raise Unreadable from None
            # A second stream after the first would be content that the check of the first did not cover.
            if self._stream.unused_data:
                raise Unreadable
            left = self._stream.unconsumed_tail
            yield part

    @property
    def complete(self) -> bool:
        """Whether the stream came to its own end."""
        return self._stream.eof
