"""A tool gateway that does what a test tells it, behind a real Unix socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from subagents.tools.v1 import tools_pb2, tools_pb2_grpc
from subagents_client.errors import status_of, trailer_of
from subagents_errors import SubagentsError


@dataclass
class FakeGateway(tools_pb2_grpc.ToolGatewayServiceServicer):
    """Answers every tool call with the same thing.

    Attributes:
        answer: what it gives.
        refusal: what it fails with instead.
        received: every request.
        grants: the grants that came with them.
        own_turns: what reading own turns gives.
        own_requests: every request for them.
        delegated: what delegating gives.
        delegations: every request to delegate.
    """

    answer: tools_pb2.CallToolResponse = field(default_factory=tools_pb2.CallToolResponse)
    refusal: SubagentsError | None = None
    received: list[tools_pb2.CallToolRequest] = field(default_factory=list)
    grants: list[Any] = field(default_factory=list)
    own_turns: tools_pb2.ReadOwnTurnsResponse = field(default_factory=tools_pb2.ReadOwnTurnsResponse)
    own_requests: list[tools_pb2.ReadOwnTurnsRequest] = field(default_factory=list)

    delegated: tools_pb2.DelegateResponse = field(default_factory=tools_pb2.DelegateResponse)
    delegations: list[tools_pb2.DelegateRequest] = field(default_factory=list)

    async def Delegate(self, request: tools_pb2.DelegateRequest, context: Any) -> tools_pb2.DelegateResponse:
        """Say what the other one came to."""
        self.delegations.append(request)
        await self._admit(context)
        return self.delegated

    async def CallTool(self, request: tools_pb2.CallToolRequest, context: Any) -> tools_pb2.CallToolResponse:
        """Answer."""
        self.received.append(request)
        await self._admit(context)
        return self.answer

    async def ReadOwnTurns(
        self, request: tools_pb2.ReadOwnTurnsRequest, context: Any
    ) -> tools_pb2.ReadOwnTurnsResponse:
        """Give own turns."""
        self.own_requests.append(request)
        await self._admit(context)
        return self.own_turns

    async def _admit(self, context: Any) -> None:
        self.grants += [value for key, value in context.invocation_metadata() if key == "x-subagents-grant"]
        if self.refusal is not None:
            error = self.refusal
            await context.abort(status_of(type(error)), error.message, trailing_metadata=tuple(trailer_of(error)))


@asynccontextmanager
async def gateway(fake: FakeGateway, folder: Path) -> AsyncIterator[str]:
    """Serve a fake gateway; gives its address."""
    server = grpc.aio.server()
    tools_pb2_grpc.add_ToolGatewayServiceServicer_to_server(fake, server)
    target = f"unix:{folder / 'gateway.sock'}"
    server.add_insecure_port(target)
    await server.start()
    try:
        yield target
    finally:
        await server.stop(0)
