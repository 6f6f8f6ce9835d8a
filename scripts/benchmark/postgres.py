"""A PostgreSQL of the bench's own, which keeps what it confirms: one throw-away server on a Unix socket."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from scripts.benchmark.processes import START_SECONDS, STOP_SECONDS, ServerLost

BINARIES: Final = Path("/usr/lib/postgresql")
"""Where Debian puts them, a folder for each version."""
NOT_INSTALLED: Final = "PostgreSQL not installed"
USER: Final = "postgres"
PORT: Final = "5432"
"""Only part of the socket's name."""
SETTINGS: Final = ("listen_addresses=", "unix_socket_permissions=0777", "log_min_messages=fatal")
"""All else is as it comes, `fsync` and `synchronous_commit` included."""
POLL_SECONDS: Final = 0.05


def binaries() -> Path | None:
    """Return the folder of the newest installed server's programs; None if there is none, or no client for it."""
    found = sorted(BINARIES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found and find_spec("asyncpg") is not None else None


class Postgres:
    """A running server.

    Args:
        programs: its folder of programs.
        folder: of its socket.
        pid: of its first process, the parent of all others.
    """

    def __init__(self, programs: Path, folder: Path, pid: int) -> None:
        self._programs = programs
        self.folder = folder
        self.pid = pid

    async def database(self, name: str) -> str:
        """Make an empty database and return its address. Raises `ServerLost`."""
        making = [str(self._programs / "createdb"), "-h", str(self.folder), "-p", PORT, "-U", USER, name]
        if await _ended_with(making, self.folder) != 0:
            raise ServerLost(f"PostgreSQL did not make the database {name}")
        return f"postgresql://{USER}@/{name}?host={self.folder}&port={PORT}"


@asynccontextmanager
async def postgres(*, wanted: bool = True, settings: Sequence[str] = ()) -> AsyncIterator[Postgres | None]:
    """Start a server; None if it is not wanted, or not installed. Raises `ServerLost`.

    `settings` differ from the server's own, each `name=value`.
    """
    programs = binaries() if wanted else None
    if programs is None:
        yield None
        return
    folder = Path(mkdtemp(prefix="bench-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, USER, USER)  # it refuses to be root's
        initialised = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8"]
        if await _ended_with([*initialised, "--locale=C", "--no-sync"], folder) != 0:
            raise ServerLost("PostgreSQL's initdb failed")
        async with _serving(programs, folder, settings) as pid:
            yield Postgres(programs, folder, pid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _serving(programs: Path, folder: Path, settings: Sequence[str]) -> AsyncIterator[int]:
    options = [part for setting in (*SETTINGS, *settings) for part in ("-c", setting)]
    command = [str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *options]
    with (folder / "log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(*as_plain_user(command), cwd=folder, stdout=log, stderr=log)
    try:
        await _answers(programs, folder, server)
        yield server.pid
    finally:
        await stop(server)


async def _answers(programs: Path, folder: Path, server: asyncio.subprocess.Process) -> None:
    asking = [str(programs / "pg_isready"), "-q", "-h", str(folder), "-p", PORT]
    for _ in range(int(START_SECONDS / POLL_SECONDS)):
        if server.returncode is not None:
            break
        if await _ended_with(asking, folder) == 0:
            return
        await asyncio.sleep(POLL_SECONDS)
    raise ServerLost(f"PostgreSQL did not start; it said: {(folder / 'log').read_text()[-500:] or 'nothing'}")


async def stop(server: asyncio.subprocess.Process) -> None:
    """End a server without waiting for its clients; kill it if it does not go."""
    if server.returncode is not None:
        return
    server.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await server.wait()
    except TimeoutError:
        server.kill()
        await server.wait()


async def _ended_with(command: Sequence[str], folder: Path) -> int:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*as_plain_user(command), cwd=folder, stdout=quiet, stderr=quiet)
    return await process.wait()


def as_plain_user(command: Sequence[str]) -> Sequence[str]:
    """Return the command, run by `postgres` if we are root: the process that is started is the one that runs."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--reset-env", "--", *command]
