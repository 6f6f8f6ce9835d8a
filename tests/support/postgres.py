"""A real PostgreSQL for tests: one throw-away server a session, on a Unix socket only, and a new database each test.

The server runs as a plain user (it refuses to be root's): as `postgres`, which Debian's package makes, if the tests run
as root. What it keeps is gone with its folder.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import pytest

BINARIES: Final = Path("/usr/lib/postgresql")
PORT: Final = 5432
"""Only part of the socket's name."""
USER: Final = "postgres"
SETTINGS: Final = (
    "listen_addresses=",
    "unix_socket_permissions=0777",
    "max_connections=60",
    "shared_buffers=16MB",
    "max_wal_size=64MB",
    "fsync=off",  # a killed process loses nothing of what the kernel has; only a power cut would
    "autovacuum_naptime=5s",
    "log_min_messages=fatal",
)
SECONDS: Final = 180.0
NOT_CONNECTED: Final = 2
"""Exit status of psql when the server takes no connection, or drops it."""
IN_MEMORY: Final = Path("/dev/shm")
ENOUGH_MEMORY: Final = 2**30
"""Bytes: the files of a server with many databases."""


def postgres_binaries() -> Path:
    """Return the folder of the newest installed server's programs, or skip the test and say what is missing."""
    found = sorted(BINARIES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        pytest.skip("missing tool: initdb (Debian package postgresql)")
    return found[-1].parent


@dataclass
class PostgresServer:
    """One server with its folder.

    Attributes:
        folder: short, because a socket's path may have 107 bytes.
    """

    binaries: Path
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def dsn(self, database: str = "postgres", user: str = USER) -> str:
        """Return how to reach a database of this server."""
        return f"postgresql://{user}@/{database}?host={self.folder}&port={PORT}"

    @property
    def socket(self) -> Path:
        """The socket that it listens on."""
        return self.folder / f".s.PGSQL.{PORT}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(self.binaries / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        for setting in SETTINGS:
            command += ["-c", setting]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(_as_plain_user(command), stdout=log, stderr=log, cwd=self.folder)
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        """Wait, `SECONDS` at most; a server that recovers from a crash answers when it is through."""
        asking = [str(self.binaries / "pg_isready"), "-q", "-h", str(self.folder), "-p", str(PORT), "-t", "1"]
        for _ in range(int(SECONDS / 0.05)):
            if subprocess.run(asking, check=False, timeout=SECONDS).returncode == 0:
                return
            try:
                self._process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"the server ended: {(self.folder / 'log').read_text()[-2000:]}")
        raise RuntimeError(f"the server does not answer: {(self.folder / 'log').read_text()[-2000:]}")

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """End it at once, as a crash would: no checkpoint, no goodbye; its backends notice and end, too."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait(SECONDS)

    def start_again(self) -> None:
        """Start it after it was killed; as long as a backend of before is still there, it refuses to."""
        for _ in range(100):
            try:
                self.start()
            except RuntimeError as refused:
                if "shared memory" not in str(refused):
                    raise
            else:
                return
        raise RuntimeError("backends of the killed server do not end")

    def backends(self, where: str = "true") -> list[int]:
        """Return the process ids of the sidecars' connections, as far as an SQL condition picks them.

        A server that still recovers from a backend's crash is asked again.
        """
        asked = "select pid from pg_stat_activity where application_name = 'dispatch-sidecar' and "
        for _ in range(int(SECONDS / 0.05)):
            try:
                return [int(line) for line in self.sql(asked + where).split()]
            except subprocess.CalledProcessError as refused:
                if refused.returncode != NOT_CONNECTED:
                    raise
            self._pause()
        raise RuntimeError("the server takes no connection")

    def stop(self) -> None:
        """End it quickly, and wait for it; for ever refused is killed."""
        if self.process is None or self.process.poll() is not None:
            return
        try:
            os.kill(self.pid, signal.SIGINT)
            self.process.wait(SECONDS)
        except (subprocess.TimeoutExpired, OSError, IndexError):
            self.process.kill()
            self.process.wait(SECONDS)

    def copy_into(self, folder: Path) -> "PostgresServer":
        """Start a standby of this server in a folder; it follows synchronously once this returns.

        From then on a commit is answered when the standby has it.
        """
        folder.mkdir(mode=0o755, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(folder, USER, USER)
        copying = ["-h", str(self.folder), "-p", str(PORT), "-U", USER, "-D", str(folder / "data"), "-R", "-c", "fast"]
        _run(_as_plain_user([str(self.binaries / "pg_basebackup"), *copying, "--no-sync"]), folder)
        standby = PostgresServer(self.binaries, folder)
        standby.start()
        self.sql("alter system set synchronous_standby_names = '*'")
        self.sql("select pg_reload_conf()")
        for _ in range(int(SECONDS / 0.05)):
            if self.sql("select sync_state from pg_stat_replication") == "sync":
                return standby
            self._pause()
        raise RuntimeError("the standby does not follow")

    def promote(self) -> None:
        """Make a standby the primary; it waits for no other standby."""
        self.sql("select pg_promote(true, 30)")
        self.sql("alter system reset synchronous_standby_names")
        self.sql("select pg_reload_conf()")

    def _pause(self) -> None:
        """Wait for a moment, or until the server has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.05)

    def new_database(self, template: str = "template0") -> str:
        """Create a database; return its name."""
        name = f"t{next(self._numbers)}"
        self.sql(f"create database {name} template {template}")
        return name

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run SQL with psql; return what it prints, bare."""
        asking = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-p", str(PORT), "-U", USER]
        command = [str(self.binaries / "psql"), *asking, "-d", database, "-c", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout.strip()

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "the server was never started"
        return self.process


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Make a server of its own, and take it away again; skips the test where none is installed."""
    binaries = postgres_binaries()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=_place()))
    server = PostgresServer(binaries, folder)
    try:
        folder.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(folder, USER, USER)
        making = ["-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        _run(_as_plain_user([str(binaries / "initdb"), *making]), folder)
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The session's server."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres: PostgresServer) -> Iterator[str]:
    """A new database, for one test."""
    name = postgres.new_database()
    yield postgres.dsn(name)
    postgres.sql(f"drop database {name} with (force)")


def _place() -> Path:
    """Return where servers keep their files: each new database is a thousand of them, which cost little in memory."""
    roomy = IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free >= ENOUGH_MEMORY
    return IN_MEMORY if roomy and os.access(IN_MEMORY, os.W_OK) else Path("/tmp")


def _as_plain_user(command: Sequence[str]) -> list[str]:
    """Return the command, run by `postgres` if we are root: the process that is started is the one that runs."""
    if os.geteuid() != 0:
        return list(command)
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--reset-env", "--"]
    return [*become, *command]


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS, cwd=folder)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-2000:]}")
