"""Connecting with TLS: a channel whose certificates follow their files.

gRPC reads the certificates of a channel once. After a change of the files, the next call opens another channel; calls
on the old one continue, and it is closed after the last of them.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self

import grpc

from subagents_tls.files import TlsMaterial, WatchedFiles


class RotatingChannel(grpc.aio.Channel):
    """A channel to one target. Belongs to the event loop in which it is first used.

    Args:
        target: where to connect.
        watched: certificates.
        options: of gRPC.
    """

    def __init__(self, target: str, watched: WatchedFiles, options: Sequence[tuple[str, Any]] = ()) -> None:
        name = watched.files.server_name
        named = (("grpc.ssl_target_name_override", name),) if name else ()
        self._target = target
        self._watched = watched
        self._options = (*options, *named, ("grpc.use_local_subchannel_pool", 1))
        self._line: _Line | None = None
        self._retired: dict[_Line, None] = {}
        self._closing: dict[asyncio.Task[None], None] = {}
        self._closed = False

    def line(self) -> "_Line":
        """Return the connection that a call which begins now has to use."""
        material = self._watched.current()
        if self._line is not None and (self._line.number == material.number or self._closed):
            return self._line
        before = self._line
        self._line = _Line(self._open(material), material.number, self._unused)
        if before is not None:
            self._retired[before] = None
            self._unused(before)
        return self._line

    def _open(self, material: TlsMaterial) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(material.ca, material.key, material.certificate)
        return grpc.aio.secure_channel(self._target, credentials, options=self._options)

    def _unused(self, line: "_Line") -> None:
        """Close a connection that no further call will use, once it carries none."""
        if line.calls == 0 and self._retired.pop(line, line) is None:
            task = asyncio.get_running_loop().create_task(line.channel.close())
            self._closing[task] = None
            task.add_done_callback(lambda done: self._closing.pop(done, None))

    def unary_unary(self, *args: Any, **named: Any) -> Any:
        """Return a callable for a method, as every channel does; each call of it uses the newest certificates."""
        return _Late(self, "unary_unary", args, named)

    def unary_stream(self, *args: Any, **named: Any) -> Any:
        """As `unary_unary`."""
        return _Late(self, "unary_stream", args, named)

    def stream_unary(self, *args: Any, **named: Any) -> Any:
        """As `unary_unary`."""
        return _Late(self, "stream_unary", args, named)

    def stream_stream(self, *args: Any, **named: Any) -> Any:
        """As `unary_unary`."""
        return _Late(self, "stream_stream", args, named)

    async def close(self, grace: float | None = None) -> None:
        """Close every connection; calls that are left after the grace end."""
        self._closed = True
        lines = [*self._retired, *([self._line] if self._line is not None else [])]
        self._retired.clear()
        for line in lines:
            await line.channel.close(grace)
        for task in list(self._closing):
            await task

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Return the state of the newest connection."""
        return self.line().channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Wait for the newest connection."""
        await self.line().channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Wait until the newest connection is there."""
        await self.line().channel.channel_ready()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self.close()


class _Line:
    """One connection, and how many calls are on it."""

    __slots__ = ("_on_unused", "calls", "channel", "number")

    def __init__(self, channel: grpc.aio.Channel, number: int, on_unused: Callable[["_Line"], None]) -> None:
        self.channel = channel
        self.number = number
        self.calls = 0
        self._on_unused = on_unused

    def carry(self, call: Any) -> None:
        """Count a call until it has ended."""
        self.calls += 1
        call.add_done_callback(self._ended)

    def _ended(self, _: object) -> None:
        self.calls -= 1
        if self.calls == 0:
            self._on_unused(self)


class _Late:
    """A method of a channel, made anew for each connection."""

    __slots__ = ("_args", "_channel", "_kind", "_line", "_made", "_named")

    def __init__(self, channel: RotatingChannel, kind: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._channel = channel
        self._kind, self._args, self._named = kind, args, named
        self._line: _Line | None = None
        self._made: Any = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        line = self._channel.line()
        if line is not self._line:
            self._line, self._made = line, getattr(line.channel, self._kind)(*self._args, **self._named)
        call = self._made(*args, **named)
        line.carry(call)
        return call
