"""A data service over plain HTTP that follows a script, for connectors that speak HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from sidecar_conformance.connector_bench import ConnectorBench, SeenCall, ServiceScript

REFUSALS: Final[Mapping[ServiceScript, tuple[str, bytes]]] = {
    ServiceScript.MISSING_PRINCIPAL: ("400 Bad Request", b'{"code": "missing_principal"}'),
    ServiceScript.PRINCIPAL_MISMATCH: ("403 Forbidden", b'{"code": "principal_mismatch"}'),
    ServiceScript.FAIL: ("500 Internal Server Error", b"broken"),
}


class HttpBench(ConnectorBench):
    """Serves on a free port of the loopback; subclasses make the connector."""

    def __init__(self) -> None:
        self._calls: list[SeenCall] = []
        self.seen = self._calls
        self._address = ""
        self._arrived = asyncio.Condition()
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        self._address = f"http://{host}:{port}"
        try:
            yield
        finally:
            self._stopping.set()
            server.close()
            await server.wait_closed()

    @property
    def endpoint(self) -> str:
        """Return the scripted path."""
        return f"{self._address}/v1/enrich"

    @property
    def endpoint_of_nobody(self) -> str:
        """Return a port that no service gets."""
        return "http://127.0.0.1:1/v1/enrich"

    async def asked(self, times: int) -> None:
        """Wait for requests."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self._calls) >= times)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            headers = await _headers(reader)
            request = json.loads(await reader.readexactly(int(headers["content-length"])))
            async with self._arrived:
                self._calls.append(_seen(request, headers))
                self._arrived.notify_all()
            await self._play(self.script, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the connector went away, which is its right
        finally:
            writer.close()

    async def _play(self, script: ServiceScript, writer: asyncio.StreamWriter) -> None:
        if script is ServiceScript.HANG:
            await self._stopping.wait()
            return
        status, body = REFUSALS.get(script, ("200 OK", self.body))
        length = len(body) + (100 if script is ServiceScript.TRUNCATE else 0)
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
        writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
        await writer.drain()


async def _headers(reader: asyncio.StreamReader) -> Mapping[str, str]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _seen(request: Mapping[str, Any], headers: Mapping[str, str]) -> SeenCall:
    return SeenCall(
        principal=request["principal"],
        domain_type=request["domain_type"],
        enricher_id=request["enricher_id"],
        arguments=request["arguments"],
        nonce=request.get("nonce"),
        traceparent=headers.get("traceparent"),
    )
