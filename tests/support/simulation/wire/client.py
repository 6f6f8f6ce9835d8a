"""The client of one turn, over the wire."""

import asyncio
from typing import Any

import msgspec

from sidecar.operations.requests import DispatchRequest, OnDisconnect
from sidecar.operations.turn.bind_turn import Bound
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.simulation.clients import Client, Listener, request_of
from tests.support.simulation.schedule import DispatchSpec
from tests.support.simulation.wire.decoding import Decoder
from tests.support.simulation.wire.served import GRACE


class WireClient(Client):
    """Sends only what a message can say, and keeps frames as they arrived, which `decode` compares in the end."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._arrived: list[tuple[Listener, Any, list[tuple[float, pb.DispatchFrame]]]] = []

    def _request(self, spec: DispatchSpec, bound: Bound) -> DispatchRequest:
        request = request_of(spec, bound)
        until = request.continue_for if request.on_disconnect is OnDisconnect.CONTINUE_UNTIL else None
        join = msgspec.structs.replace(request.join, min_success=request.join.min_success or None)
        return msgspec.structs.replace(request, continue_for=until, join=join)

    async def _listen(self, begun: Any, after: int, slow: float) -> None:
        listener = Listener(begun.dispatch.dispatch_id, after, slow, began_at=self._loop.time())
        self._watched.listeners.append(listener)
        frames: list[tuple[float, pb.DispatchFrame]] = []
        self._arrived.append((listener, begun.dispatch, frames))

        async def take(frame: pb.DispatchFrame) -> None:
            frames.append((self._loop.time(), frame))
            if slow:
                await self._read_slowly(slow)

        try:
            await begun.deliver(take)
            listener.cut = not frames or not frames[-1][1].HasField("result")
        except asyncio.CancelledError:
            listener.cut = True
            listener.unclear = GRACE if begun.left_away else 0.0
            raise
        finally:
            listener.left_at = self._loop.time()

    def decode(self, problems: list[str]) -> None:
        """Give each listener the frames that arrived at it."""
        for listener, dispatch, frames in self._arrived:
            decoder = Decoder(listener.dispatch_id, dispatch.result, problems)
            listener.frames = [(at, decoder.frame(frame)) for at, frame in frames]
