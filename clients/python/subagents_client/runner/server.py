"""Serves a runner host: its address, its health checks, and the signals that stop it."""

import asyncio
import errno
import fcntl
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio

from subagents_client.channels import MOST_MESSAGE_BYTES, refuse_remote, unix_path
from subagents_client.runner.addresses import admit_owner_of_directory, check_address
from subagents_client.runner.attempts import reject_run
from subagents_client.runner.tls import HostTls
from subagents_errors import CallerNotAllowed

SERVER_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.so_reuseport", 0),  # else two hosts on one port would share its calls, without an error
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MOST_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", 256),
    ("grpc.max_metadata_size", 8_192),
    ("grpc.absolute_max_metadata_size", 16_384),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # gRPC's default is 60 s, and it would override the timeout above
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),  # the sidecar pings every 10 s
)
TLS_OPTIONS: Final = (("grpc.max_connection_age_ms", 3_600_000),)
"""A connection ends after an hour. The new one needs a handshake, which checks the caller's certificate again."""
CLOSING_SECONDS: Final = 1.0
"""Time in which RPCs may still finish when the server stops; then gRPC cancels them."""


class ListedCallersHealth(health_aio.HealthServicer):
    """Health checks over TLS, which admit only the callers in `HostTls.callers`.

    Health shows which services a host has and when it stops, so other callers must not see it.
    """

    def __init__(self, tls: HostTls) -> None:
        super().__init__()
        self._tls = tls

    async def Check(  # noqa: N802  names of gRPC
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        """Return the health of a service."""
        await self._admit(context)
        return await super().Check(request, context)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:  # noqa: N802  a name of gRPC
        """Stream the health of a service: its present value, then each change."""
        await self._admit(context)
        await super().Watch(request, context)

    async def List(self, _: object, context: Any) -> None:  # noqa: N802  a name of gRPC
        """Refuse the request: gRPC does not implement `List` for asyncio."""
        await self._admit(context)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "use Check or Watch")

    async def _admit(self, context: Any) -> None:
        try:
            self._tls.check(context)
        except CallerNotAllowed as error:
            await reject_run(context, error)


@dataclass(frozen=True, slots=True)
class Listener:
    """A started server.

    Attributes:
        address: address of the server, with the port that the system chose if the target had port 0.
        health: answers health checks.
    """

    address: str
    health: health_aio.HealthServicer

    async def refuse_new(self) -> None:
        """Answer health checks with NOT_SERVING from now on. Running calls continue."""
        await self.health.enter_graceful_shutdown()


@asynccontextmanager
async def listening(
    target: str,
    service: str,
    handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]",
    *,
    allow_remote: bool,
    tls: HostTls | None = None,
) -> AsyncIterator[Listener]:
    """Serve one service and health checks on an address, without gRPC reflection.

    Raises:
        ValueError: the address is beyond this machine, which needs `tls` or `allow_remote`, or the certificates cannot
            be used.
        OSError: the address cannot be served, or another process serves it.
    """
    refuse_remote(target, allowed=allow_remote or tls is not None)
    credentials = None if tls is None else tls.credentials(target)
    check_address(target)
    with exclusive_lock(target):
        server = grpc.aio.server(options=SERVER_OPTIONS if tls is None else SERVER_OPTIONS + TLS_OPTIONS)
        health = health_aio.HealthServicer() if tls is None else ListedCallersHealth(tls)
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, dict(handlers))])
        try:
            if credentials is None:
                port = server.add_insecure_port(target)
            else:
                port = server.add_secure_port(target, credentials)
        except RuntimeError:
            raise OSError(f"{target} cannot be served; gRPC does not say why") from None
        admit_owner_of_directory(target)
        for name in ("", service):
            await health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await server.start()
        try:
            yield Listener(_bound(target, port), health)
        finally:
            await server.stop(CLOSING_SECONDS)


@contextmanager
def exclusive_lock(target: str) -> Iterator[None]:
    """Hold a lock beside a Unix socket, since gRPC would take over a socket that another process serves.

    Raises:
        OSError: another process holds the lock, or the lock file cannot be created.
    """
    path = unix_path(target)
    if path is None:
        yield
        return
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        text = f"{path}.lock cannot be created ({error.strerror}): use a directory that this user can write to"
        raise OSError(error.errno, text) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"{path} is served by another process: stop that process, or use another path"
            raise OSError(errno.EADDRINUSE, text) from None
        yield
    finally:
        os.close(lock)


@asynccontextmanager
async def stop_signal() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGTERM or SIGINT sets."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _bound(target: str, port: int) -> str:
    return target if unix_path(target) else f"{target.rpartition(':')[0]}:{port}"
