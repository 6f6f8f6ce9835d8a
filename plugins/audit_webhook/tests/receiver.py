"""A receiver of webhooks over real HTTP, which checks each signature as the page describes it, and sinks for it."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from typing_extensions import override

from examples.http_serving import serving
from sidecar_audit_webhook import WebhookSettings, WebhookSink
from sidecar_conformance.audit_sink import AuditSinkBench, SinkFault

FIRST: Final = "whsec_" + base64.b64encode(b"first secret of a receiver, 1").decode()
SECOND: Final = "whsec_" + base64.b64encode(b"second secret of a receiver, 2").decode()
NOW: Final = 1_772_625_600.0
SOURCE: Final = "urn:example:shop-production"


class Receiver:
    """The receiver.

    Attributes:
        status: of the next answers.
        refuses: ids of events that are answered with 500 instead.
        headers: of the next answers.
        endless: the part that the bodies of the next answers repeat for ever; empty: they stop without an end.
        sent: bytes of such bodies.
        requests: all that came, with headers and event, also those that were not accepted.
        came: set with each request.
        go_on: cleared: requests are accepted only when it is set.
    """

    def __init__(self, secret: str = FIRST) -> None:
        self.secret = secret
        self.status = 204
        self.refuses: frozenset[str] = frozenset()
        self.headers: Mapping[str, str] = {}
        self.endless: bytes | None = None
        self.sent = 0
        self.requests: list[tuple[Mapping[str, str], dict[str, Any]]] = []
        self.accepted: list[dict[str, Any]] = []
        self.came = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    def app(self) -> Starlette:
        """Return the application; `/elsewhere` accepts everything, too."""
        return Starlette(routes=[Route(path, self._post, methods=["POST"]) for path in ("/hooks", "/elsewhere")])

    async def _post(self, request: Request) -> Response:
        body = await request.body()
        event = json.loads(body)
        self.requests.append((dict(request.headers), event))
        self.came.set()
        await self.go_on.wait()
        if not is_signed(request.headers, body, self.secret):
            return Response(status_code=401)
        if event["id"] in self.refuses:
            return Response(status_code=500)
        if self.status < 300:
            self.accepted.append(event)
        if self.endless is not None:
            return StreamingResponse(self._parts(self.endless), status_code=self.status)
        return Response(status_code=self.status, headers=dict(self.headers))

    async def _parts(self, part: bytes) -> AsyncIterator[bytes]:
        yield b"."
        while part:
            yield part
            self.sent += len(part)
            await asyncio.sleep(0)
        await asyncio.Event().wait()


def is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Return whether one of the signatures is that of `secret`; written from `docs/webhooks.md` alone."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{expected}" in headers["webhook-signature"].split(" ")


def secrets_file(folder: Path, *secrets: str) -> Path:
    """Write secrets into the file of a folder, as another file that takes its place."""
    written, file = folder / "secrets.new", folder / "secrets"
    written.write_text("".join(f"{each}\n" for each in secrets))
    written.chmod(0o400)
    written.rename(file)
    return file


@asynccontextmanager
async def received(
    folder: Path, monotonic: Callable[[], float] = time.monotonic, **settings: Any
) -> AsyncIterator[tuple[Receiver, WebhookSink]]:
    """Have a receiver, and a sink for it."""
    receiver = Receiver()
    async with serving(receiver.app(), receiver.go_on.set, "critical") as url:
        sink = WebhookSink(settings_for(f"{url}/hooks", folder, **settings), lambda: NOW, monotonic)
        try:
            yield receiver, sink
        finally:
            await sink.close()


def settings_for(url: str, folder: Path, **more: Any) -> WebhookSettings:
    """Return settings with the first secret, unless the folder has secrets."""
    file = folder / "secrets"
    return WebhookSettings(
        **{"url": url, "source": SOURCE, "secret_file": file if file.exists() else secrets_file(folder, FIRST), **more}
    )


class WebhookBench(AuditSinkBench):
    """The receiver for the suite."""

    secrets = (FIRST, FIRST.removeprefix("whsec_"))

    def __init__(self, folder: Path) -> None:
        self._folder, self._url = folder, ""
        self._receiver = Receiver()

    @override
    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with serving(self._receiver.app(), self._receiver.go_on.set, "critical") as url:
            self._url = f"{url}/hooks?team=on-call"
            yield

    @override
    def make(self) -> WebhookSink:
        return WebhookSink(settings_for(self._url, self._folder))

    @override
    async def kept(self) -> Sequence[Mapping[str, Any]]:
        return [event["data"] for event in self._receiver.accepted]

    @override
    async def misbehave(self, fault: SinkFault) -> None:
        self._receiver.secret = SECOND if fault is SinkFault.AWAY else FIRST
        self._receiver.status = 503 if fault is SinkFault.REFUSE else 204
        if fault is SinkFault.HANG:
            self._receiver.go_on.clear()
        else:
            self._receiver.go_on.set()
        await asyncio.sleep(0)
