"""Listeners of a dispatch: a gRPC stream, or a caller who only waits for the result."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from google.protobuf.message import Message
from grpc.aio import BaseError

from sidecar.core.dispatching.frames import DispatchResult, Frame
from sidecar.core.errors import Overloaded
from sidecar.operations.ports import ListenerGone
from sidecar.rpc.methods import Call
from sidecar.rpc.translate.frames import frame_message
from subagents.dispatch.v1 import dispatch_pb2


class GrpcFrames:
    """Writes frames to a call. One at a time, so that what is unread is at most one frame and gRPC's own window.

    Args:
        wrap: puts a frame into the response of the method.
        timeout: a listener that takes no frame for this long has left.
    """

    def __init__(self, call: Call, wrap: Callable[[dispatch_pb2.DispatchFrame], Message], timeout: timedelta) -> None:
        self._call = call
        self._wrap = wrap
        self._timeout = timeout
        self._too_slow = False

    async def send(self, frame: Frame) -> None:
        """Deliver one frame. Raises `ListenerGone`."""
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                await self._call.write(self._wrap(frame_message(frame)))
        except TimeoutError:
            self._too_slow = True
            raise ListenerGone from None
        except BaseError:
            raise ListenerGone from None

    def check(self) -> None:
        """Raise `Overloaded` if the listener was given up: else the stream would end as if it were whole."""
        if self._too_slow:
            raise Overloaded(
                f"nothing was read from the stream for {self._timeout.total_seconds():g} s; read faster, and listen "
                "again with ResumeDispatch",
                retry_after=timedelta(0),
            )


class ResultOnly:
    """Waits for the result and lets everything else go by."""

    def __init__(self) -> None:
        """Begin without one."""
        self.result: DispatchResult | None = None

    async def send(self, frame: Frame) -> None:
        """Keep the result."""
        self.result = frame.result or self.result
