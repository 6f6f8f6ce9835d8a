"""The bench of the conformance suite: the real server behind a proxy that can misbehave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from examples.http_serving import serving
from plugins.flags_unleash.tests.unleash import ADMIN, CLIENT, ENVIRONMENT, Unleash
from sidecar_conformance.flag_backend import FlagBackendBench, SourceFault
from sidecar_flags_unleash import UnleashFlags, UnleashSettings

KNOWN: Final = ("ai_assistant_subagent_shop", "ai_assistant_subagent_rewards")
HALF: Final = b'{"version":2,"features":[{"name":"ai_assistant_subagent_shop","ena'


class Proxy:
    """Passes questions on to a server, unless it misbehaves.

    Attributes:
        fault: as which it behaves.
        lie: an answer in place of the server's, for everything; None: the server's.
        held: set while a question is held that gets no answer.
    """

    def __init__(self, url: str) -> None:
        """Behave well."""
        self._url = url
        self.fault = SourceFault.NONE
        self.lie: Response | None = None
        self.held = asyncio.Event()
        self._mended = asyncio.Event()

    def app(self) -> Starlette:
        """Return what is to be served."""
        return Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])])

    def behave(self, fault: SourceFault) -> None:
        """Misbehave so from now on, or no more."""
        self.fault = fault
        if fault is not SourceFault.HANG:
            self._mended.set()
            self._mended = asyncio.Event()

    def mend(self) -> None:
        """Behave well, for the end."""
        self.behave(SourceFault.NONE)

    async def _answer(self, request: Request) -> Response:
        if self.fault is SourceFault.HANG:
            self.held.set()
            await self._mended.wait()
        if self.fault is SourceFault.AWAY:
            return Response(status_code=503)
        if self.fault is SourceFault.GARBAGE:
            return Response(HALF, media_type="application/json")
        if self.lie is not None:
            return self.lie
        kept = {name: value for name, value in request.headers.items() if name not in {"host", "content-length"}}
        async with httpx.AsyncClient(base_url=self._url, trust_env=False, verify=False) as client:
            answer = await client.request(
                request.method, request.url.path, headers=kept, content=await request.body(), timeout=10.0
            )
        passed = {name: value for name, value in answer.headers.items() if name in {"etag", "content-type"}}
        return Response(answer.content, answer.status_code, passed)


class UnleashBench(FlagBackendBench):
    """Flags of the server, read and switched through the proxy."""

    secrets = (CLIENT, ADMIN)

    def __init__(self, unleash: Unleash, folder: Path) -> None:
        self.unleash = unleash
        self.proxy = Proxy(unleash.url)
        self._folder = folder
        self._url = ""
        for name, token in (("client", CLIENT), ("admin", ADMIN)):
            (folder / name).write_text(f"{token}\n")

    @override
    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with serving(self.proxy.app(), self.proxy.mend, "critical") as url:
            self._url = url
            yield

    @override
    def make(self) -> UnleashFlags:
        return self.made()

    def made(self, *, writes: bool = True) -> UnleashFlags:
        """Return a backend; one without an admin token only reads."""
        return UnleashFlags(
            UnleashSettings(
                url=self._url,
                environment=ENVIRONMENT,
                token_file=self._folder / "client",
                admin_token_file=self._folder / "admin" if writes else None,
                poll_seconds=0.2,
            )
        )

    @override
    async def set_flags(self, on: frozenset[str]) -> None:
        others = {name for name, each in self.unleash.features().items() if each["enabled"]} - set(KNOWN)
        for name in (*KNOWN, *others):
            await asyncio.to_thread(self.unleash.have, name, on=name in on)

    def new_name(self) -> str:
        """Return a name that the server has never had."""
        return f"new_{uuid4().hex}"

    @override
    async def misbehave(self, fault: SourceFault) -> None:
        self.proxy.behave(fault)
