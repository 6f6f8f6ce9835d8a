"""Running an example service over HTTP, in a process of its own or inside another program's event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette
from typing_extensions import override

BACKLOG: Final = 128


class _GuestServer(uvicorn.Server):
    """A server inside another program, which handles the signals."""

    @contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        yield


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections; port 0 takes a free one."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.listen(BACKLOG)
    return sock


def address_of(sock: socket.socket) -> str:
    """Return the URL at which the socket is reached."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def config_of(app: Starlette, log_level: str = "warning") -> uvicorn.Config:
    """Return server settings: quiet, and prompt to end."""
    return uvicorn.Config(
        app, lifespan="off", log_level=log_level, access_log=False, timeout_graceful_shutdown=1, http="h11"
    )


@asynccontextmanager
async def serving(app: Starlette, mend: Callable[[], None], log_level: str = "warning") -> AsyncIterator[str]:
    """Serve `app` at a free port in the running loop; yield its address.

    Args:
        app: the service.
        mend: releases requests that are held back on purpose, so that the server can end.
        log_level: of the server; `critical` where broken answers are given on purpose.
    """
    sock = listening("127.0.0.1", 0)
    server = _GuestServer(config_of(app, log_level))
    task = asyncio.get_running_loop().create_task(server.serve(sockets=[sock]))
    try:
        yield address_of(sock)
    finally:
        mend()
        server.should_exit = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(task, timeout=5)
