"""Protects every request to the console: only known host names, only small bodies, and strict security headers."""

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES: Final = 64 * 1024
"""The most bytes of a request body. The largest form, that of a step, has a few hundred."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""Content security policy: scripts, styles and requests only from and to the console itself, and nothing inline."""
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""Headers of every answer: a browser guesses no type, shows the console in no frame, sends its URL nowhere, shares no
process or resource with other sites, allows no devices, and stores no page."""
SECURE: Final = {"strict-transport-security": "max-age=31536000"}
"""Over HTTPS only: a browser remembers this header for a year, and would refuse a console on plain loopback HTTP."""


class Guard:
    """Wraps the application and refuses requests that it must not see.

    Args:
        inner: the application.
        hosts: names that the `Host` header may have. This prevents DNS rebinding: another site whose name resolves to
            this address.
        secure: whether the console is served over HTTPS.
    """

    def __init__(self, inner: ASGIApp, hosts: Collection[str], *, secure: bool) -> None:
        self._inner = inner
        self._hosts = frozenset(each.lower() for each in hosts)
        self._headers = {**HEADERS, **(SECURE if secure else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        # ASGI sends the start and the end of the server to the same function; they have no headers to check.
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Also on refusals: a browser shows them as pages as well.
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        headers = Headers(scope=scope)
        if _name(headers.get("host", "")) not in self._hosts:
            answer = PlainTextResponse("This is not the name of this console; see --host.\n", 421)
            await answer(scope, receive, with_headers)
            return
        declared = headers.get("content-length", "0")
        # A chunked body is refused, too: its size would be known only after it was read.
        if "transfer-encoding" in headers or not declared.isdigit() or int(declared) > MOST_BYTES:
            answer = PlainTextResponse(f"Send at most {MOST_BYTES} bytes, with their length.\n", 413)
            await answer(scope, receive, with_headers)
            return
        await self._inner(scope, receive, with_headers)


def _name(host: str) -> str:
    """Return the name of a `Host` header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
