"""A sidecar with an operator listener, as a process of its own or in this one, operated over its sockets.

with place() as folder:
    async with operated_process(folder) as bench:
        await bench.killed("shop")
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sidecar.composition.parts import Overrides
from sidecar.composition.running import running_sidecar
from sidecar.settings import read_settings
from tests.support.operating import SETTINGS, Operator, prepared
from tests.support.sidecar_process import SidecarProcess, serving, settings_file


@dataclass(slots=True, kw_only=True)
class OperatedProcess(Operator):
    """A sidecar that is a process of its own, and its operator."""

    sidecar: SidecarProcess


@asynccontextmanager
async def operated_process(
    folder: Path, more: str = "", private: Ed25519PrivateKey | None = None
) -> AsyncIterator[OperatedProcess]:
    """Serve with `rewards` behind flags, and `more` settings."""
    signer = prepared(folder, private)
    async with serving(folder, more=SETTINGS.format(folder=folder) + more) as sidecar:
        yield OperatedProcess(folder=folder, signer=signer, sidecar=sidecar)


@asynccontextmanager
async def operated_here(
    folder: Path, more: str = "", private: Ed25519PrivateKey | None = None, replaced: Overrides | None = None
) -> AsyncIterator[Operator]:
    """Serve the same inside this process, with some things replaced."""
    signer, replaced = prepared(folder, private), replaced or Overrides()
    settings = read_settings(settings_file(folder, SETTINGS.format(folder=folder) + more), {})
    async with running_sidecar(settings, replaced=replaced):
        yield Operator(folder=folder, signer=signer, clock=replaced.clock)


async def free_port() -> int:
    """Return a port of the loopback that nobody holds, for a server that cannot say which one it took."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
    return port
