"""Running the service, in a process of its own or inside another program's event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from typing_extensions import override

from examples.gates.server import ReferenceGates

BACKLOG: Final = 128


class _GuestServer(uvicorn.Server):
    """A server inside somebody else's program: signals are not its own."""

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


def config_of(gates: ReferenceGates) -> uvicorn.Config:
    """Return server settings: quiet, and prompt to end."""
    return uvicorn.Config(
        gates.app(), lifespan="off", log_level="critical", access_log=False, timeout_graceful_shutdown=1, http="h11"
    )


@asynccontextmanager
async def serving(gates: ReferenceGates, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve in the running loop; yield the address."""
    sock = listening(host, port)
    address = address_of(sock)
    server = _GuestServer(config_of(gates))
    task = asyncio.get_running_loop().create_task(server.serve(sockets=[sock]))
    try:
        yield address
    finally:
        gates.switches.clear()
        server.should_exit = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(task, timeout=5)
