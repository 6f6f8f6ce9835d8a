"""Serves the console with uvicorn: over HTTP on a loopback address, or over HTTPS on any address."""

import asyncio
import ipaddress
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn

from sidecar.cli.console.guard import Guard
from sidecar.cli.console.rates import Samples
from sidecar.cli.console.sidecars import Sidecars
from sidecar.cli.console.visit import Console
from sidecar.cli.console.web import make_app
from sidecar.cli.subagent.client import CannotOperate, OperatorExit

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
STOPPING: Final = (signal.SIGINT, signal.SIGTERM)
MOST_REQUESTS: Final = 100
"""The most requests and connections at a time. Further ones are answered with status 503."""


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The addresses and certificates of a console.

    Attributes:
        targets: addresses of the operators' listeners of sidecars.
        listen: host and port of the console.
        tls: folder with the certificates for targets at TCP addresses.
        certificate, key: files of the console's own certificate; None: it is served without HTTPS.
        hosts: further names under which browsers reach the console.
        monotonic: the clock by which rates are computed, in seconds.
    """

    targets: tuple[str, ...]
    listen: str
    tls: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    hosts: tuple[str, ...] = ()
    monotonic: Callable[[], float] = time.monotonic


def serve_console(options: ConsoleOptions, say: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code. `say` prints a line for the operator."""
    try:
        server, address = console_server(options)
    except CannotOperate as problem:
        say(str(problem))
        return problem.code
    # Printed only when the server listens: before that, the port may turn out to be in use.
    server.on_started = lambda: say(f"the console is at {address}; sign in with a role token (`sidecar token mint`)")
    try:
        asyncio.run(server.serve())
    except SystemExit:  # e.g. the port is in use; uvicorn has written why
        return OperatorExit.NOT_ASKED  # 2: no sidecar was asked anything
    return OperatorExit.DONE


class ConsoleServer(uvicorn.Server):
    """A uvicorn server that calls `on_started` when it listens, and ends without an error after a signal."""

    on_started: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.on_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End the server at a signal. The original raises the signal again afterwards, which ends the process."""
        loop = asyncio.get_running_loop()
        for each in STOPPING:
            loop.add_signal_handler(each, self.handle_exit, each, None)
        try:
            yield
        finally:
            for each in STOPPING:
                loop.remove_signal_handler(each)


def console_server(options: ConsoleOptions) -> tuple[ConsoleServer, str]:
    """Return the server, not started, and its address. Raises `CannotOperate`."""
    host, port = _address(options)
    secure = options.certificate is not None
    # Every name of the loopback interface reaches the console there, so each may be in the browser's address bar.
    host_names = options.hosts + (LOCAL_NAMES if _is_loopback(host) else (_in_url(host),))
    console = Console(Sidecars(options.targets, options.tls), secure, Samples(options.monotonic))
    # Outermost, so that even static files and the sign-in page have the checks and the headers.
    guarded = Guard(make_app(console), host_names, secure=secure)
    config = uvicorn.Config(
        guarded,
        host=host,
        port=port,
        access_log=False,  # a URL may name a user
        log_level="warning",
        server_header=False,
        # Headers of a proxy are not trusted: any client could send them.
        proxy_headers=False,
        limit_concurrency=MOST_REQUESTS,
        # Seconds. Open streams of turn pages would otherwise delay the end without a limit.
        timeout_graceful_shutdown=2,
        # No page uses WebSockets, and `Guard` checks only HTTP requests.
        ws="none",
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    return ConsoleServer(config), f"{'https' if secure else 'http'}://{_in_url(host)}:{port}/"


def _address(options: ConsoleOptions) -> tuple[str, int]:
    host, _, port = options.listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdigit():
        raise _wrong(f"--listen {options.listen}: write a host and a port, e.g. 127.0.0.1:8700")
    if (options.certificate is None) != (options.key is None):
        raise _wrong("--certificate and --key belong together")
    for file in (options.certificate, options.key):
        if file is not None and not file.is_file():
            raise _wrong(f"there is no file {file}")
    # Refused, because a warning is easily missed: a role token that is intercepted can be used for up to an hour.
    if options.certificate is None and not _is_loopback(host):
        raise _wrong(f"{host} is not a loopback address, so tokens would travel unencrypted; give --certificate, --key")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _wrong(message: str) -> CannotOperate:
    return CannotOperate(message, OperatorExit.NOT_ASKED)
