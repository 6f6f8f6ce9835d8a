"""A data service over gRPC that follows a script, for connectors that speak `EnricherService`."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import grpc

from sidecar.core.envelopes.forms import EnvelopeEncoding
from sidecar_conformance.connector_bench import ConnectorBench, SeenCall, ServiceScript
from subagents.envelope.v1 import envelope_pb2

SERVICE = "subagents.envelope.v1.EnricherService"
REFUSALS = {
    ServiceScript.MISSING_PRINCIPAL: (grpc.StatusCode.INVALID_ARGUMENT, "missing_principal"),
    ServiceScript.PRINCIPAL_MISMATCH: (grpc.StatusCode.PERMISSION_DENIED, "principal_mismatch"),
    ServiceScript.FAIL: (grpc.StatusCode.INTERNAL, "broken"),
}


class EnricherBench(ConnectorBench):
    """Serves on a free port of the loopback, answering the very bytes of the script; subclasses make the connector."""

    form = EnvelopeEncoding.PROTOBUF

    def __init__(self) -> None:
        self._calls: list[SeenCall] = []
        self.seen = self._calls
        self.on_behalf_of: list[str] = []
        self.port = 0
        self._arrived = asyncio.Condition()
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve."""
        server = grpc.aio.server()
        handler: Any = grpc.unary_unary_rpc_method_handler(
            self._enrich, request_deserializer=envelope_pb2.EnricherRequest.FromString
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Enrich": handler}),))
        self.port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield
        finally:
            self._stopping.set()
            await server.stop(0)

    @property
    def endpoint(self) -> str:
        """Return where it serves."""
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint_of_nobody(self) -> str:
        """Return a port that no service gets."""
        return "127.0.0.1:1"

    async def asked(self, times: int) -> None:
        """Wait for requests."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self._calls) >= times)

    async def _enrich(self, request: envelope_pb2.EnricherRequest, context: Any) -> bytes:
        metadata = dict(context.invocation_metadata())
        async with self._arrived:
            self._calls.append(_seen(request, metadata.get("traceparent")))
            self.on_behalf_of.append(unquote(metadata["x-ccs-on-behalf-of"]))
            self._arrived.notify_all()
        if self.script is ServiceScript.HANG:
            await self._stopping.wait()
        if self.script in REFUSALS:
            await context.abort(*REFUSALS[self.script])
        return self.body


def _seen(request: envelope_pb2.EnricherRequest, traceparent: str | None) -> SeenCall:
    return SeenCall(
        principal=request.principal,
        domain_type=request.domain_type,
        enricher_id=request.enricher_id,
        arguments=json.loads(request.arguments_json),
        nonce=request.nonce or None,
        traceparent=traceparent,
    )
