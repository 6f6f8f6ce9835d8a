"""Benches of the conformance suite: flagd's file and in-process modes, and OFREP, each over the real provider.

flagd itself comes from no package registry for Python, Node or Debian. Its place is taken by a gRPC server that speaks
`flagd.sync.v1`, and OFREP's by an HTTP server written from its specification.
"""

import asyncio
import json
import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
from openfeature.schemas.protobuf.flagd.sync.v1 import sync_pb2, sync_pb2_grpc
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typing_extensions import override

from examples.http_serving import serving
from sidecar.policy.protocols import FlagBackend
from sidecar_conformance.flag_backend import ASK, OTHER, SOON, FlagBackendBench, SourceFault
from sidecar_flags_openfeature import OpenFeatureFlags, OpenFeatureSettings

HALF: Final = '{"flags": {"ai_assistant_subagent_shop": {"sta'
TOKEN: Final = "Bearer s3cret-of-ofrep"


def flag(value: bool | float, **more: Any) -> Mapping[str, Any]:
    """Return a flag of flagd's, static unless `targeting` is given."""
    return {"state": "ENABLED", "variants": {"on": value, "other": not value}, "defaultVariant": "on", **more}


class Bench(FlagBackendBench):
    """A source of flags.

    Attributes:
        flags: in flagd's form.
        backend: that was made last.
    """

    def __init__(self) -> None:
        self.flags: dict[str, Any] = {}
        self.fault = SourceFault.NONE
        self.backend: OpenFeatureFlags | None = None

    @abstractmethod
    def settings(self) -> OpenFeatureSettings:
        """Return the settings of a backend."""

    @override
    def make(self) -> FlagBackend:
        self.backend = OpenFeatureFlags(self.settings())
        return self.backend

    @override
    async def set_flags(self, on: frozenset[str]) -> None:
        await self.have({name: flag(name in on) for name in {ASK, OTHER} | on})

    async def have(self, flags: Mapping[str, Any]) -> None:
        """Have exactly these flags at the source."""
        self.flags = dict(flags)
        await self.publish()

    async def publish(self) -> None:
        """Let the source tell its flags, or do what the fault says."""

    @override
    async def misbehave(self, fault: SourceFault) -> None:
        self.fault = fault
        await self.publish()

    def document(self) -> str:
        """Return what the source holds; half of it where it sends garbage."""
        return HALF if self.fault is SourceFault.GARBAGE else json.dumps({"flags": self.flags})


class FileBench(Bench):
    """A file, replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "flags.json"

    @override
    def settings(self) -> OpenFeatureSettings:
        options = {"resolver_type": "file", "offline_flag_source_path": str(self.path), "deadline_ms": 100}
        return OpenFeatureSettings("flagd", options)

    @override
    async def publish(self) -> None:
        if self.fault is SourceFault.AWAY:
            self.path.unlink(missing_ok=True)
            return
        new = self.path.with_suffix(".new")
        new.write_text(self.document())
        os.replace(new, self.path)


class SyncService(sync_pb2_grpc.FlagSyncServiceServicer):
    """`flagd.sync.v1`: the whole document at first and at each change."""

    def __init__(self, bench: "FlagdBench") -> None:
        self._bench = bench

    async def SyncFlags(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802  named by the proto
        """Tell all flags, and again whenever they are published."""
        while True:
            news = self._bench.news
            if self._bench.fault is not SourceFault.HANG:
                yield sync_pb2.SyncFlagsResponse(flag_configuration=self._bench.document())
            await news.wait()

    async def FetchAllFlags(self, request: Any, context: Any) -> Any:  # noqa: N802  named by the proto
        """Tell all flags once."""
        while self._bench.fault is SourceFault.HANG:
            await self._bench.news.wait()
        return sync_pb2.FetchAllFlagsResponse(flag_configuration=self._bench.document())


class FlagdBench(Bench):
    """A server in flagd's place."""

    def __init__(self) -> None:
        super().__init__()
        self.news = asyncio.Event()
        self._port = 0
        self._server: grpc.aio.Server | None = None

    @override
    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.publish()
        try:
            yield
        finally:
            await self._stop()

    @override
    def settings(self) -> OpenFeatureSettings:
        return OpenFeatureSettings("flagd", {"host": "127.0.0.1", "port": self._port, "tls": False})

    @override
    async def publish(self) -> None:
        if self.fault is SourceFault.AWAY:
            await self._stop()
        elif self._server is None:
            self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
            sync_pb2_grpc.add_FlagSyncServiceServicer_to_server(SyncService(self), self._server)
            self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
            await self._server.start()
        before, self.news = self.news, asyncio.Event()
        before.set()

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)


class OfrepBench(Bench):
    """A server that speaks OFREP, with a token.

    Attributes:
        answers: in place of the protocol's, by flag.
        asked: bodies of the questions.
    """

    secrets = (TOKEN.split()[1],)

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.answers: dict[str, Response] = {}
        self.asked: list[Any] = []
        self.mended = asyncio.Event()
        self._token_file = folder / "token"
        self._token_file.write_text(f"{TOKEN}\n")
        self._url = ""

    @override
    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        app = Starlette(routes=[Route("/ofrep/v1/evaluate/flags/{key}", self._evaluate, methods=["POST"])])
        async with serving(app, self.mended.set, "critical") as url:
            self._url = url
            yield

    @override
    def settings(self) -> OpenFeatureSettings:
        return OpenFeatureSettings("ofrep", {"base_url": self._url}, {"authorization": self._token_file})

    @override
    async def publish(self) -> None:
        if self.fault is not SourceFault.HANG:
            self.mended.set()
            self.mended = asyncio.Event()

    async def _evaluate(self, request: Request) -> Response:
        if self.fault is SourceFault.HANG:
            await self.mended.wait()
        if self.fault is SourceFault.AWAY:
            return Response(status_code=503)
        if self.fault is SourceFault.GARBAGE:
            return Response(HALF, media_type="application/json")
        if request.headers.get("authorization") != TOKEN:
            return Response(status_code=401)
        key = request.path_params["key"]
        self.asked.append(await request.json())
        if key in self.answers:
            return self.answers[key]
        if key not in self.flags:
            return JSONResponse({"key": key, "errorCode": "FLAG_NOT_FOUND", "errorDetails": "no such flag"}, 404)
        found = self.flags[key]
        variant = found["defaultVariant"]
        value = found["variants"][variant]
        return JSONResponse({"key": key, "value": value, "variant": variant, "reason": "STATIC", "metadata": {}})


async def noticed(backend: OpenFeatureFlags) -> None:
    """Wait until the provider has told something."""
    await asyncio.wait_for(backend.changed(), SOON)
