"""Reads a response without holding more of it than allowed, and without blocking the event loop."""

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Final

import httpcore
import msgspec

from sidecar.adapters.connector_rest.network import LARGEST_HEAD
from sidecar.core.decoding import DecodeError, from_json
from sidecar.policy.protocols import EnricherAnswer, EnricherRefused, EnricherReply, RefusalKind

OK: Final = 200
MAX_REFUSAL_BYTES: Final = 4096
GZIP: Final = 31
"""`wbits` for a stream with a gzip header and checksum."""
LARGEST_PART: Final = 64 * 1024
"""The most bytes that are decompressed at a time."""
PIECES_AT_ONCE: Final = 64
"""Pieces between two yields to the event loop; a piece takes about 20 µs."""
FEW_PIECES: Final = 1024
"""Of any size; beyond them, a body may have one piece for each `SMALL_PIECE` bytes."""
SMALL_PIECE: Final = 256
REFUSALS: Final = {
    (400, "missing_principal"): RefusalKind.MISSING_PRINCIPAL,
    (403, "principal_mismatch"): RefusalKind.PRINCIPAL_MISMATCH,
}
"""HTTP status and `code` of the refusals of a data service. Source: PC2-D-32, PC2-D-33."""


class Unreadable(Exception):
    """The body does not match its headers, or has too many chunks."""


class _Refusal(msgspec.Struct, frozen=True):
    code: str = ""


async def reply_of(response: httpcore.Response, max_bytes: int) -> EnricherReply:
    """Return the envelope, unopened, or why there is none.

    Any status except 200 and the two refusals means `UNAVAILABLE`, also a redirect.
    """
    if response.status == OK:
        body = await body_of_response(response, max_bytes)
        return body if isinstance(body, EnricherRefused) else EnricherAnswer(body)
    body = await body_of_response(response, MAX_REFUSAL_BYTES)
    code = "" if isinstance(body, EnricherRefused) else _code_of(body)
    return EnricherRefused(REFUSALS.get((response.status, code), RefusalKind.UNAVAILABLE))


def _code_of(body: bytes) -> str:
    try:
        return from_json(body, _Refusal).code
    except DecodeError:
        return ""


async def body_of_response(response: httpcore.Response, max_bytes: int) -> bytes | EnricherRefused:
    """Return the decoded body. The length in the headers is used only to stop early, and never trusted."""
    encoding = _header(response, b"content-encoding").lower() or b"identity"
    if encoding not in {b"identity", b"gzip"}:
        return EnricherRefused(RefusalKind.MALFORMED)
    declared = _header(response, b"content-length")
    if declared.isdigit() and int(declared) > max_bytes:
        return EnricherRefused(RefusalKind.TOO_LARGE)
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
    if unpack is not None and not unpack.complete:
        return EnricherRefused(RefusalKind.MALFORMED)
    return bytes(body)


def _header(response: httpcore.Response, name: bytes) -> bytes:
    """Return a header's values; of a header that occurs twice, all of them."""
    return b", ".join(value.strip() for each, value in response.headers if each.lower() == name)


async def in_slices(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, and yield to the event loop from time to time: a chunk can be a single byte.

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
        """Yield the decompressed content of `piece`, lazily and at most `LARGEST_PART` bytes at a time.

        Raises:
            Unreadable: the piece is not gzip, or follows the end of the stream.
        """
        left = piece
        while left:
            try:
                part = self._stream.decompress(left, LARGEST_PART)
            except zlib.error:
                raise Unreadable from None
            if self._stream.unused_data:
                raise Unreadable
            left = self._stream.unconsumed_tail
            yield part

    @property
    def complete(self) -> bool:
        """Whether the end of the stream was reached."""
        return self._stream.eof
