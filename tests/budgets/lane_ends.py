"""The lane of the Python SDK against the sidecar's, without gRPC between them: what the client's side costs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client.session.lane import Lane
from subagents_client.session.operation import LaneOperation
from tests.budgets.served import LEFT_SECONDS, Served


class Joined:
    """A call of `Session` in this process: the client's stream, and the sidecar's reader and writer.

    Attributes:
        requests, responses: how many messages went each way.
    """

    def __init__(self) -> None:
        self.requests = self.responses = 0
        self._there: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._back: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def write(self, request: pb.SessionRequest) -> None:
        """Send to the sidecar."""
        self.requests += 1
        self._there.put_nowait(request.SerializeToString())

    async def read(self) -> Any:
        """Return what the sidecar has sent."""
        message = await self._back.get()
        return grpc.aio.EOF if message is None else pb.SessionResponse.FromString(message)

    async def done_writing(self) -> None:
        """Close the client's side."""
        self._there.put_nowait(None)

    def cancel(self) -> bool:
        """Do nothing: the lane ends by itself."""
        return True

    async def received(self) -> AsyncIterator[bytes]:
        """Give the sidecar what the client sends."""
        while (message := await self._there.get()) is not None:
            yield message

    async def answered(self, message: bytes) -> None:
        """Send to the client."""
        self.responses += 1
        self._back.put_nowait(message)

    def ended(self) -> None:
        """The sidecar's handler has returned."""
        self._back.put_nowait(None)


async def by_a_client(sidecar: Served, requests: Sequence[bytes]) -> tuple[Joined, Sequence[Sequence[bytes]]]:
    """Open a lane with the SDK, dispatch everything at once, and return the stream and every answer."""
    joined = Joined()

    async def serving() -> None:
        await sidecar.session(joined.received(), joined.answered)
        joined.ended()

    lane = Lane(joined)
    running = [asyncio.ensure_future(each) for each in (serving(), lane.run())]
    await lane.opened.wait()
    sent = [lane.send("dispatch", pb.DispatchRequest.FromString(each), LEFT_SECONDS) for each in requests]
    answers = await asyncio.gather(*map(_read, sent))
    lane.retire()
    await asyncio.gather(*running)
    return joined, answers


async def _read(operation: LaneOperation) -> Sequence[bytes]:
    found = []
    while isinstance(answer := await operation.read(), pb.DispatchResponse):
        found.append(answer.SerializeToString())
    return found
