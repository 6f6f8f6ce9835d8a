"""Starts the gRPC listeners, with reflection if the settings enable it. Options: research/reliability.md section 3."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc
from msgspec import Struct

from sidecar.rpc.authorisation import CallAdmission
from sidecar.rpc.handler_guard import HandlerContext
from sidecar.rpc.health import Health
from sidecar.rpc.methods import Method
from sidecar.rpc.outermost import ErrorInterceptor
from sidecar.rpc.socket_files import CannotListen, exclusive_socket
from sidecar.settings import LimitsSettings

SOCKET_MODE: Final = 0o600
STOP_SECONDS: Final = 0.5
"""For calls that are still there after the drain; their outcomes are on record by then."""


class ListenerPlan(Struct, frozen=True):
    """What to serve where.

    Attributes:
        socket: path of the Unix socket.
        services: full names, for health and reflection.
        methods: of the services; health is added, and reflection if it is on.
        streams: most calls at a time on one connection.
        drain: tells clients of long streams that the sidecar is about to stop.
    """

    socket: Path
    entrance: CallAdmission
    services: Sequence[str]
    methods: Sequence[Method]
    streams: int
    reflection: bool
    drain: Callable[[], None] | None = None


@asynccontextmanager
async def listening(
    plan: ListenerPlan,
    around: HandlerContext,
    limits: LimitsSettings,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
) -> AsyncIterator[Health]:
    """Serve while the context is open; gives the health service, which says NOT_SERVING until told otherwise.

    Args:
        plan: what is served where.
        around: what the outermost wrapper needs.
        limits: what a connection may ask.
        interceptors: outside of even the outermost wrapper; instrumentation only.

    Raises:
        AddressHeld: another process serves the socket.
        CannotListen: the socket cannot be served.
    """
    health = Health(plan.services)
    methods = [*plan.methods, *health.methods(), *(_reflection(plan.services) if plan.reflection else ())]
    with exclusive_socket(plan.socket):
        server = grpc.aio.server(interceptors=interceptors, options=options(limits, plan.streams))
        server.add_generic_rpc_handlers((ErrorInterceptor(plan.entrance, methods, around),))
        try:
            server.add_insecure_port(f"unix:{plan.socket}")
        except RuntimeError:
            raise CannotListen(f"{plan.socket} cannot be bound; see that its directory can be written to") from None
        plan.socket.chmod(SOCKET_MODE)
        await server.start()
        try:
            yield health
        finally:
            await server.stop(STOP_SECONDS)


def options(limits: LimitsSettings, streams: int) -> Sequence[tuple[str, int]]:
    """Return the server's options."""
    return (
        ("grpc.so_reuseport", 0),
        ("grpc.max_concurrent_streams", streams),
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", limits.message_bytes),
        ("grpc.max_metadata_size", limits.metadata_bytes // 2),
        ("grpc.absolute_max_metadata_size", limits.metadata_bytes),
        ("grpc.max_connection_idle_ms", 300_000),
        ("grpc.server_handshake_timeout_ms", 5_000),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 2),
    )


def _reflection(services: Sequence[str]) -> Sequence[Method]:
    from sidecar.rpc.reflection import Reflection  # noqa: PLC0415  off by default

    return Reflection((*services, "grpc.health.v1.Health")).methods()
