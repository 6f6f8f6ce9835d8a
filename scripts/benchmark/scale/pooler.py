"""PgBouncer in transaction mode, in front of the bench's PostgreSQL: Debian's, which prepares no statements."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.benchmark.postgres import PORT, USER, as_plain_user, stop
from scripts.benchmark.processes import START_SECONDS, ServerLost

PROGRAM: Final = "pgbouncer"
PLACES: Final = ("/usr/sbin",)
"""Where Debian puts it, which is not in every user's path."""
NOT_INSTALLED: Final = "PgBouncer not installed"
POOL: Final = 20
"""Connections to PostgreSQL, for each database."""
POLL_SECONDS: Final = 0.05
SETTINGS: Final = """\
[databases]
* = host={server} port={port} user={user}
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 1000
max_db_connections = {pool}
server_idle_timeout = 600
"""


@dataclass(frozen=True, slots=True)
class Pooler:
    """A running pooler.

    Attributes:
        folder: of its socket.
    """

    process: asyncio.subprocess.Process
    folder: Path

    @property
    def pid(self) -> int:
        """Return its number."""
        return self.process.pid

    async def end(self) -> None:
        """End it, with its connections to the server."""
        await stop(self.process)

    def dsn(self, database: str) -> str:
        """Return how to reach a database of the server behind it."""
        return f"postgresql://{USER}@/{database}?host={self.folder}&port={PORT}"


def program() -> str | None:
    """Return the pooler's program; None if it is not installed."""
    found = (shutil.which(PROGRAM, path=place) for place in (None, *PLACES))
    return next(filter(None, found), None)


def version() -> str:
    """Return what it says of itself."""
    found = program()
    if found is None:
        return NOT_INSTALLED
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    return said.splitlines()[0] if said else PROGRAM


@asynccontextmanager
async def pooler(server: Path) -> AsyncIterator[Pooler]:
    """Start it in front of the server whose socket is in a folder.

    Raises:
        ServerLost: it does not come up, or is not installed.
    """
    found = program()
    if found is None:
        raise ServerLost(NOT_INSTALLED)
    folder = _configured(server)
    command = as_plain_user([found, "-q", str(folder / "pgbouncer.ini")])
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=log, stderr=log)
    try:
        await _listens(folder, process)
        yield Pooler(process, folder)
    finally:
        await stop(process)


def _configured(server: Path) -> Path:
    """Write its files into a folder of its own, which it can read, and return that."""
    folder = server / "pooler"
    folder.mkdir(exist_ok=True)
    said = SETTINGS.format(server=server, folder=folder, port=PORT, user=USER, pool=POOL)
    (folder / "pgbouncer.ini").write_text(said, encoding="utf-8")
    (folder / "users").write_text(f'"{USER}" ""\n', encoding="utf-8")
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, USER, USER)
    return folder


async def _listens(folder: Path, process: asyncio.subprocess.Process) -> None:
    for _ in range(int(START_SECONDS / POLL_SECONDS)):
        if process.returncode is not None:
            break
        if (folder / f".s.PGSQL.{PORT}").exists():
            return
        await asyncio.sleep(POLL_SECONDS)
    raise ServerLost(f"{PROGRAM} did not start; it said: {(folder / 'log').read_text()[-500:] or 'nothing'}")
