"""Calls the sidecar over a session lane: the same requests, the same checks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc

from scripts.benchmark.clients import TIMEOUT_SECONDS, Job, SidecarClient, read_messages
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc
from subagents_client.session.lane import Lane

LANE_SECONDS: Final = 1500.0


class LaneClient(SidecarClient):
    """Dispatches and binds over a lane; prepares turns and ends them as the other client does.

    Args:
        lane: open.
    """

    def __init__(self, channel: grpc.aio.Channel, secret: str, lane: Lane) -> None:
        super().__init__(channel, secret)
        self._lane = lane

    async def dispatch(self, job: Job) -> int:
        """Run the calls."""
        return await read_messages(self._messages(job.request), job.children)

    async def bind_on_lane(self, request: pb.BindTurnRequest) -> int:
        """Bind a turn and remember its token."""
        answer: pb.BindTurnResponse = await self._lane.send("bind_turn", request, TIMEOUT_SECONDS).read()
        self.open.append(answer.surface_token)
        return 1

    async def _messages(self, request: pb.DispatchRequest) -> AsyncIterator[Any]:
        operation = self._lane.send("dispatch", request, TIMEOUT_SECONDS)
        while True:
            message = await operation.read()
            if not isinstance(message, pb.DispatchResponse):
                return
            yield message


@asynccontextmanager
async def lane_to(channel: grpc.aio.Channel, secret: str) -> AsyncIterator[LaneClient]:
    """Open a lane."""
    client = SidecarClient(channel, secret)
    call: Any = dispatch_pb2_grpc.DispatchServiceStub(channel).Session(timeout=LANE_SECONDS, metadata=client.metadata)
    lane = Lane(call)
    running = asyncio.create_task(lane.run())
    try:
        await lane.opened.wait()
        yield LaneClient(channel, secret, lane)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
