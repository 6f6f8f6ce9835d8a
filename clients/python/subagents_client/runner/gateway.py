"""How a running sub-agent reaches data: through the sidecar's tool gateway, with the grant of its attempt."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Final

import grpc

from subagents.tools.v1 import tools_pb2, tools_pb2_grpc
from subagents_client.channels import UNIX_SCHEMES, open_channel, refuse_remote
from subagents_client.checking.requests import check_request
from subagents_client.errors import error_from
from subagents_client.outcomes import Component, Outcome
from subagents_client.runner.answers import DataUnavailable, Delegated, OwnComponent, OwnTurn, ToolData
from subagents_client.translate import OUTCOMES
from subagents_errors import DependencyUnavailable
from subagents_tls.files import TlsFiles

GRANT_KEY: Final = "x-subagents-grant"
MOST_CHANNELS: Final = 32
"""Maximum number of open channels. A host serves one or a few sidecars, each with one gateway address."""


@dataclass(slots=True)
class _Line:
    """A channel, and the number of its running calls."""

    channel: grpc.aio.Channel
    calls: int = 0


class Gateways:
    """Connections to tool gateways, one per address.

    Args:
        allow_remote: whether a gateway may be beyond this machine, although the connection is not encrypted.
        tls: certificates for gateways at TCP addresses; None: no TLS. Connections to Unix sockets never use TLS.
    """

    def __init__(self, *, allow_remote: bool, tls: TlsFiles | None = None) -> None:
        self._allow_remote = allow_remote or tls is not None
        self._tls = tls
        self._lines: dict[str, _Line] = {}

    async def call(
        self, target: str, grant: str, request: tools_pb2.CallToolRequest, left: float
    ) -> ToolData | DataUnavailable:
        """Call one tool, like `Run.call_tool`, within `left` seconds."""
        check_request(request)
        refuse_remote(target, allowed=self._allow_remote)
        async with self._line(target) as channel:
            stub = tools_pb2_grpc.ToolGatewayServiceStub(channel)
            try:
                answer = await stub.CallTool(request, timeout=left, metadata=((GRANT_KEY, grant),))
            except grpc.aio.AioRpcError as failure:
                raise error_from(failure, f"CallTool of {request.tool_id}", target) from failure
        return _result(answer)

    async def own_turns(self, target: str, grant: str, max_turns: int, left: float) -> Sequence[OwnTurn]:
        """Read the sub-agent's own earlier turns, like `Run.read_own_turns`, within `left` seconds."""
        refuse_remote(target, allowed=self._allow_remote)
        request = tools_pb2.ReadOwnTurnsRequest(max_turns=max_turns)
        check_request(request)
        async with self._line(target) as channel:
            stub = tools_pb2_grpc.ToolGatewayServiceStub(channel)
            try:
                answer = await stub.ReadOwnTurns(request, timeout=left, metadata=((GRANT_KEY, grant),))
            except grpc.aio.AioRpcError as failure:
                raise error_from(failure, "ReadOwnTurns", target) from failure
        return [_own_turn(one) for one in answer.turns]

    async def delegate(self, target: str, grant: str, request: tools_pb2.DelegateRequest, left: float) -> Delegated:
        """Call another sub-agent, like `Run.delegate`, within `left` seconds."""
        check_request(request)
        refuse_remote(target, allowed=self._allow_remote)
        async with self._line(target) as channel:
            stub = tools_pb2_grpc.ToolGatewayServiceStub(channel)
            try:
                answer = await stub.Delegate(request, timeout=left, metadata=((GRANT_KEY, grant),))
            except grpc.aio.AioRpcError as failure:
                raise error_from(failure, f"Delegate to {request.tool_name}", target) from failure
        return _delegated(answer)

    async def close(self) -> None:
        """Close every connection."""
        lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            await line.channel.close()

    @asynccontextmanager
    async def _line(self, target: str) -> AsyncIterator[grpc.aio.Channel]:
        line = self._lines.get(target)
        if line is None:
            await self._make_room()
            line = self._lines.setdefault(
                target, _Line(open_channel(target, None if target.startswith(UNIX_SCHEMES) else self._tls))
            )
        line.calls += 1
        try:
            yield line.channel
        finally:
            line.calls -= 1

    async def _make_room(self) -> None:
        if len(self._lines) < MOST_CHANNELS:
            return
        idle = next((target for target, line in self._lines.items() if line.calls == 0), None)
        if idle is None:
            raise DependencyUnavailable(f"more than {MOST_CHANNELS} tool gateways are in use at once")
        await self._lines.pop(idle).channel.close()


def _result(answer: tools_pb2.CallToolResponse) -> ToolData | DataUnavailable:
    if answer.WhichOneof("result") != "payload_json":
        return DataUnavailable()
    try:
        return ToolData(json.loads(answer.payload_json), answer.partial)
    except ValueError:
        return DataUnavailable()


def _delegated(answer: tools_pb2.DelegateResponse) -> Delegated:
    return Delegated(
        outcome=OUTCOMES.get(answer.outcome, Outcome.FAILED),
        narration=answer.narration,
        components=[Component(one.name, one.tool_input_json, one.component_data_json) for one in answer.components],
        data_unavailable=answer.data_unavailable,
        message=answer.message,
    )


def _own_turn(message: tools_pb2.OwnTurn) -> OwnTurn:
    components = [OwnComponent(one.name, one.position, list(one.component_ids)) for one in message.components]
    ended_at = message.ended_at.ToDatetime(tzinfo=UTC)
    return OwnTurn(message.turn_id, ended_at, message.asked, message.narration, components)
