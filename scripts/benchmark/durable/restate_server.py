"""A Restate server of the bench's own: a child process that listens on Unix sockets in a folder of its own."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx

from scripts.benchmark.processes import START_SECONDS, STOP_SECONDS, ServerLost

PROGRAM: Final = "restate-server"
INSTALLED: Final = "restate/node_modules/@restatedev/restate-server-*/bin/restate-server"
"""Below the virtual environment of the bench, where `make bench` puts it."""
NODE: Final = "bench"
MEMORY: Final = {
    "RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE": "256 MiB",
    "RESTATE_WORKER__INVOKER__MEMORY_LIMIT": "128 MiB",
    "RESTATE_ADMIN__QUERY_ENGINE__MEMORY_SIZE": "128 MiB",
    "RESTATE_BIFROST__RECORD_CACHE_MEMORY_SIZE": "64 MiB",
}
"""What it may use; all else is as it comes, the sync of its log included."""
POLL_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 10.0


def program() -> Path | None:
    """Return the server's program; None if it is not installed."""
    ours = sorted(Path(sys.prefix).glob(INSTALLED))
    found = ours[-1] if ours else shutil.which(PROGRAM)
    return None if found is None else Path(found)


class Restate:
    """A running server.

    Attributes:
        pid: its number.
        ingress: calls handlers.
    """

    def __init__(self, pid: int, ingress: httpx.AsyncClient) -> None:
        self.pid = pid
        self.ingress = ingress


@asynccontextmanager
async def restate(folder: Path, services: str, cpu: int | None) -> AsyncIterator[Restate]:
    """Start the server and tell it about services.

    Args:
        folder: of its data and sockets; short, for the sockets' sake.
        services: their address.
        cpu: the core it stays on; None: any.

    Raises:
        ServerLost: it did not come up, or does not take the services.
    """
    found = program()
    if found is None:
        raise ServerLost(f"{PROGRAM} is not installed")
    on_core = () if cpu is None else ("taskset", "--cpu-list", str(cpu))
    arguments = ("--no-logo", "--node-name", NODE, "--base-dir", str(folder), "--listen-mode", "unix")
    environment = {**os.environ, **MEMORY, "RESTATE_DISABLE_TELEMETRY": "true", "RESTATE_LOG_FILTER": "off"}
    with (folder / "log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(
            *on_core, str(found), *arguments, cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        async with _client(folder / NODE / "admin.sock") as admin:
            await _healthy(admin, server)
            answered = await admin.post("/deployments", json={"uri": services})
            if answered.is_error:
                raise ServerLost(f"{PROGRAM} does not take the services: {answered.text}")
        async with _client(folder / NODE / "ingress.sock") as ingress:
            yield Restate(server.pid, ingress)
    finally:
        await _stop(server)


def _client(socket: Path) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=str(socket))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=ANSWER_SECONDS)


async def _healthy(admin: httpx.AsyncClient, server: asyncio.subprocess.Process) -> None:
    for _ in range(int(START_SECONDS / POLL_SECONDS)):
        if server.returncode is not None:
            break
        try:
            if (await admin.get("/health")).is_success:
                return
        except httpx.TransportError:  # it does not listen yet
            pass
        await asyncio.sleep(POLL_SECONDS)
    raise ServerLost(f"{PROGRAM} did not start")


async def _stop(server: asyncio.subprocess.Process) -> None:
    if server.returncode is not None:
        return
    server.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await server.wait()
    except TimeoutError:
        server.kill()
        await server.wait()
