"""Reading an answer without ever holding more of it than allowed."""

import zlib
from typing import Final

import httpx
import msgspec

from sidecar.policy.protocols import EnricherAnswer, EnricherRefused, EnricherReply, RefusalKind

OK: Final = 200
MAX_REFUSAL_BYTES: Final = 4096
GZIP: Final = 31
"""`wbits` for a stream with a gzip header and checksum."""
REFUSALS: Final = {
    (400, "missing_principal"): RefusalKind.MISSING_PRINCIPAL,
    (403, "principal_mismatch"): RefusalKind.PRINCIPAL_MISMATCH,
}
"""HTTP status and `code` of what a data service may refuse. Source: PC2-D-32, PC2-D-33."""


class _Refusal(msgspec.Struct, frozen=True):
    code: str = ""


async def reply_of(response: httpx.Response, max_bytes: int) -> EnricherReply:
    """Return the envelope, unopened, or why there is none.

    Any status but 200 and the two refusals is `UNAVAILABLE`, redirects too.
    """
    if response.status_code == OK:
        body = await _body(response, max_bytes)
        return body if isinstance(body, EnricherRefused) else EnricherAnswer(body)
    body = await _body(response, MAX_REFUSAL_BYTES)
    code = "" if isinstance(body, EnricherRefused) else _code_of(body)
    return EnricherRefused(REFUSALS.get((response.status_code, code), RefusalKind.UNAVAILABLE))


def _code_of(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).code
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


async def _body(response: httpx.Response, max_bytes: int) -> bytes | EnricherRefused:
    """Return the decoded body. What the headers say of its length is not believed, only used to give up early."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        return EnricherRefused(RefusalKind.MALFORMED)
    declared = response.headers.get("content-length", "0")
    if declared.isascii() and declared.isdigit() and int(declared) > max_bytes:
        return EnricherRefused(RefusalKind.TOO_LARGE)
    unpack = Gunzip() if encoding == "gzip" else None
    body = bytearray()
    async for piece in response.aiter_raw():
        part = piece if unpack is None else unpack.feed(piece, max_bytes - len(body))
        if part is None:
            return EnricherRefused(RefusalKind.MALFORMED)
        body += part
        if len(body) > max_bytes:
            return EnricherRefused(RefusalKind.TOO_LARGE)
    if unpack is not None and not unpack.complete:
        return EnricherRefused(RefusalKind.MALFORMED)
    return bytes(body)


class Gunzip:
    """Decompresses piece by piece, never far past the room that is left: a bomb is noticed, not unpacked."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=GZIP)

    def feed(self, piece: bytes, room: int) -> bytes | None:
        """Return at most `room + 1` bytes, so that one too many shows; None if the piece is not gzip."""
        try:
            return self._stream.decompress(piece, room + 1)
        except zlib.error:
            return None

    @property
    def complete(self) -> bool:
        """Whether the stream came to its own end, with nothing behind it."""
        return self._stream.eof and not self._stream.unused_data
