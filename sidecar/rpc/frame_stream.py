"""Listeners of a dispatch: a gRPC stream, or a caller who only waits for the result."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from grpc.aio import BaseError

from sidecar.core.dispatching.frames import DispatchResult, Frame
from sidecar.core.errors import InternalFault, Overloaded
from sidecar.operations.ports import ListenerGone
from sidecar.rpc.methods import Call
from sidecar.rpc.translate.frames import fill_frame
from subagents.dispatch.v1 import dispatch_pb2

EVENTS_IN_A_FRAME: Final = 64
"""More go into another frame: an event has up to 8 KiB, and a message at most 4 MiB."""


Framed = dispatch_pb2.DispatchResponse | dispatch_pb2.ResumeDispatchResponse


class GrpcFrames:
    """Writes frames to a call. One at a time, so that what is unread is at most one frame and gRPC's own window.

    Args:
        response: makes an empty response of the method, which has a `frame`.
        timeout: a listener that takes no frame for this long has left.
    """

    def __init__(self, call: Call, response: Callable[[], Framed], timeout: timedelta) -> None:
        self._call = call
        self._response = response
        self._timeout = timeout
        self._too_slow = False
        self._broken = False

    async def send(self, frame: Frame) -> None:
        """Deliver one frame. Raises `ListenerGone`."""
        try:
            for part in _parts_of(frame):
                message = self._response()
                fill_frame(message.frame, part)
                async with asyncio.timeout(self._timeout.total_seconds()):
                    await self._call.write(message)
        except TimeoutError:
            self._too_slow = True
            raise ListenerGone from None
        except BaseError:
            self._broken = True
            raise ListenerGone from None

    def check(self) -> None:
        """Raise if the listener was given up or lost: else the stream would end as if it were whole."""
        if self._broken:
            raise InternalFault("the stream broke; listen again with ResumeDispatch")
        if self._too_slow:
            raise Overloaded(
                f"nothing was read from the stream for {self._timeout.total_seconds():g} s; read faster, and listen "
                "again with ResumeDispatch",
                retry_after=timedelta(0),
            )


def _parts_of(frame: Frame) -> Iterator[Frame]:
    """Cut a frame with many events, as after a long resume, into several."""
    while len(frame.events) > EVENTS_IN_A_FRAME:
        yield Frame(frame.snapshot, frame.events[:EVENTS_IN_A_FRAME])
        frame = Frame(None, frame.events[EVENTS_IN_A_FRAME:], frame.result)
    yield frame


class ResultOnly:
    """Waits for the result and lets everything else go by."""

    def __init__(self) -> None:
        """Begin without one."""
        self.result: DispatchResult | None = None

    async def send(self, frame: Frame) -> None:
        """Keep the result."""
        self.result = frame.result or self.result
