"""Starts the gRPC listeners, and sets their limits, queues and keepalive. Source: research/reliability.md section 3."""

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Final

import grpc
from msgspec import Struct

from sidecar.rpc.authorisation import CallAdmission
from sidecar.rpc.handler_guard import HandlerContext
from sidecar.rpc.health import Health
from sidecar.rpc.methods import Method
from sidecar.rpc.outermost import ErrorInterceptor
from sidecar.rpc.socket_files import AddressInUse, CannotListen, admit_clients, exclusive_socket
from sidecar.settings import LimitsSettings

MOST_CONNECTIONS: Final = 2**31 - 2
"""The largest limit of connections. gRPC aborts the process if the limit is greater."""
STOP_SECONDS: Final = 0.5
"""Seconds for calls that still run after the drain. Their outcomes are already recorded."""


class SecureAddress(Struct, frozen=True):
    """A TCP address with mutual TLS.

    Attributes:
        address: host and port; port 0: any free one.
        credentials: creates the server's credentials; called once.
        connection_age: the age after which new calls need a new connection.
        bound: receives the address with its port.
    """

    address: str
    credentials: Callable[[], grpc.ServerCredentials]
    connection_age: timedelta
    bound: Callable[[str], None] = lambda _: None


class ListenerPlan(Struct, frozen=True):
    """The services of one listener, and its address.

    Attributes:
        socket: path of the Unix socket, or an address with TLS.
        services: full names, for health and reflection.
        methods: of the services; the methods of health are added, and those of reflection if it is on.
        streams: the most calls at a time on one connection; the client's library delays further calls.
        calls: the most calls at a time over all connections; further calls are refused with a reason.
        connections: the most connections at a time; a further one is closed at once.
        drain: tells clients of long streams that the sidecar is about to stop.
        group: of users who may connect to the socket; None: only the sidecar's user may.
    """

    socket: Path | SecureAddress
    entrance: CallAdmission
    services: Sequence[str]
    methods: Sequence[Method]
    streams: int
    reflection: bool
    drain: Callable[[], None] | None = None
    calls: int = sys.maxsize
    connections: int = MOST_CONNECTIONS
    group: int | None = None


@asynccontextmanager
async def listening(
    plan: ListenerPlan,
    around: HandlerContext,
    limits: LimitsSettings,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
) -> AsyncIterator[Health]:
    """Serve while the context is open; yields the health service, which reports NOT_SERVING until it is set.

    Args:
        plan: the services and the address.
        around: the dependencies of the guard on the process.
        limits: of messages and metadata.
        interceptors: run before the guard; for instrumentation only.

    Raises:
        AddressInUse: another process serves the socket.
        CannotListen: the socket cannot be served.
    """
    health = Health(plan.services)
    methods = [*plan.methods, *health.methods(), *(_reflection(plan.services) if plan.reflection else ())]
    secure = plan.socket if isinstance(plan.socket, SecureAddress) else None
    with exclusive_socket(plan.socket, plan.group) if isinstance(plan.socket, Path) else nullcontext():
        # After the lock is held: gRPC would take over a socket that another process serves.
        server = grpc.aio.server(interceptors=interceptors, options=options(limits, plan, secure))
        handlers = ErrorInterceptor(plan.entrance, methods, around, plan.calls)
        server.add_generic_rpc_handlers((handlers,))
        # Before the start: gRPC accepts no registered methods afterwards.
        _give_queues(server, plan.methods, handlers)
        _bind(server, plan)
        await server.start()
        try:
            yield health
        finally:
            # Before the context of the socket's lock ends: the lock must outlive the last connection.
            await server.stop(STOP_SECONDS)


def _give_queues(server: grpc.aio.Server, methods: Sequence[Method], handlers: ErrorInterceptor) -> None:
    """Give the methods with `own_queue` queues of their own in gRPC.

    `grpc.aio` accepts the calls of a queue one after the other, and needs several passes of the event loop for each. If
    calls arrive faster, they wait unseen in gRPC's core. With one queue for all methods, an excess of binds would delay
    the dispatches and the ends of turns that are already bound until their deadlines have passed, so that no turn would
    be completed.
    """
    for method in methods:
        if method.own_queue:
            service, _, name = method.name[1:].partition("/")
            server.add_registered_method_handlers(service, {name: handlers.handler(method.name)})


def _bind(server: grpc.aio.Server, plan: ListenerPlan) -> None:
    """Bind the server to its address. Raises `AddressInUse`, `CannotListen`."""
    if isinstance(plan.socket, SecureAddress):
        if plan.entrance.peers is None:
            raise CannotListen(f"{plan.socket.address} has no table of peers, so every certificate would be admitted")
        _bind_secure(server, plan.socket)
        return
    try:
        server.add_insecure_port(f"unix:{plan.socket}")
    except RuntimeError:
        raise CannotListen(f"{plan.socket} cannot be bound; see that its directory can be written to") from None
    # After the bind, which creates the file. Until then the directory's mode keeps other users out.
    admit_clients(plan.socket, plan.group)


def _bind_secure(server: grpc.aio.Server, at: SecureAddress) -> None:
    host = at.address.rpartition(":")[0]
    try:
        port = server.add_secure_port(at.address, at.credentials())
    except RuntimeError:
        raise AddressInUse(f"{at.address} cannot be bound: another process serves it, or it is not ours") from None
    # The port that gRPC returned: the configured one may be 0.
    at.bound(f"{host}:{port}")


def options(
    limits: LimitsSettings, plan: ListenerPlan, secure: SecureAddress | None = None
) -> Sequence[tuple[str, int]]:
    """Return the server's options."""
    # A connection that is too old accepts no new streams; running streams continue. TLS only: a new connection makes a
    # new handshake, with the present certificates.
    age = round(secure.connection_age.total_seconds() * 1000) if secure is not None else None
    return (
        *(() if age is None else (("grpc.max_connection_age_ms", age),)),
        # Otherwise two processes could serve one address, and each would get half of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.max_concurrent_streams", plan.streams),
        ("grpc.max_allowed_incoming_connections", plan.connections),
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", limits.message_bytes),
        # Above the first limit gRPC refuses a growing share of calls, above the second all of them.
        ("grpc.max_metadata_size", limits.metadata_bytes // 2),
        ("grpc.absolute_max_metadata_size", limits.metadata_bytes),
        # Five minutes. A client that still exists simply connects again with its next call.
        ("grpc.max_connection_idle_ms", 300_000),
        # A client that connects and sends nothing must not hold one of the limited connections.
        ("grpc.server_handshake_timeout_ms", 5_000),
        # A client whose machine or network has died sends nothing. It is detected within 25 s.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        # Without it gRPC waits a minute for the answer to a probe, whatever the line above says.
        ("grpc.http2.ping_timeout_ms", 5_000),
        # A client that pings more often without calls is disconnected after two strikes: each ping costs work.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 2),
    )


def _reflection(services: Sequence[str]) -> Sequence[Method]:
    from sidecar.rpc.reflection import Reflection  # noqa: PLC0415  off by default

    return Reflection((*services, "grpc.health.v1.Health")).methods()
