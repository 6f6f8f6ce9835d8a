"""Keeps one gRPC connection for each data service, opened at the first call and kept while there is room."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import grpc

from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings
from sidecar.policy.targets import UNIX_SCHEMES
from subagents_tls.channels import RotatingChannel
from subagents_tls.files import WatchedFiles

IDENTITY_ONLY: Final = 1
"""Bit set of the permitted compression algorithms: none. A few compressed bytes could otherwise fill the memory."""


@dataclass(slots=True)
class _Connection:
    channel: grpc.aio.Channel
    calls: int = 0


class Channels:
    """Holds at most `max_connections`. A new one replaces the one that was unused for longest; one in use stays.

    Raises:
        TlsFilesProblem: certificates cannot be used.
    """

    def __init__(self, settings: GrpcConnectorSettings) -> None:
        self._settings = settings
        self._tls = None if settings.tls is None else WatchedFiles(settings.tls)
        self._open: OrderedDict[str, _Connection] = OrderedDict()
        self.closed = False

    @asynccontextmanager
    async def channel_to(self, target: str) -> AsyncIterator[grpc.aio.Channel | None]:
        """Lend the channel to `target`; None if this is closed, or every connection is in use."""
        connection = None if self.closed else await self._connection(target)
        if connection is None:
            yield None
            return
        connection.calls += 1
        try:
            yield connection.channel
        finally:
            connection.calls -= 1

    async def close(self) -> None:
        """Close every connection; calls on them end."""
        self.closed = True
        while self._open:
            _, connection = self._open.popitem()
            await connection.channel.close()

    async def _connection(self, target: str) -> _Connection | None:
        existing = self._open.get(target)
        if existing is not None:
            self._open.move_to_end(target)
            return existing
        # Each use moves its entry to the end, so the first one without calls was unused for longest.
        unused = next((name for name, each in self._open.items() if each.calls == 0), None)
        is_full = len(self._open) >= self._settings.max_connections
        # None instead of a wait: the call has a deadline, and a connection may be in use for minutes.
        if is_full and unused is None:
            return None
        evicted = self._open.pop(unused) if is_full and unused is not None else None
        new = _Connection(self._open_channel(target))
        self._open[target] = new
        if evicted is not None:
            new.calls += 1  # counted before the wait, so that the eviction of idle channels does not close it
            try:
                await evicted.channel.close()
            finally:
                # Also if the call is cancelled here: a connection that seems in use would never be evicted.
                new.calls -= 1
        return new

    def _open_channel(self, target: str) -> grpc.aio.Channel:
        options = _options(self._settings)
        if self._tls is None or target.startswith(UNIX_SCHEMES):
            return grpc.aio.insecure_channel(target, options=options)
        return RotatingChannel(target, self._tls, options)


def _options(settings: GrpcConnectorSettings) -> Sequence[tuple[str, int]]:
    return (
        # One attempt for each call: a repeated request could have its effect twice.
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.keepalive_time_ms", round(settings.keepalive_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", round(settings.keepalive_timeout_seconds * 1000)),
        ("grpc.http2.ping_timeout_ms", round(settings.keepalive_timeout_seconds * 1000)),  # see runner_grpc
        # Shorter than gRPC's defaults, which make calls fail for up to two minutes after a service has come back.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.max_receive_message_length", settings.max_body_bytes),
        ("grpc.compression_enabled_algorithms_bitset", IDENTITY_ONLY),
        # Otherwise channels with equal options would share one connection, and closing one would not close it.
        ("grpc.use_local_subchannel_pool", 1),
    )
