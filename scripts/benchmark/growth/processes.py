"""What a process weighs, and a sidecar to weigh."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmark.clients import SidecarClient
from scripts.benchmark.processes import Server, running
from scripts.benchmark.record_files import LISTS, RECORD, facts_not_listed
from scripts.benchmark.sidecar_server import secret_file

Tell = Callable[[str], None]
"""Shows how far a measurement is."""
MEGABYTE = 1_000_000
KILOBYTE = 1_000
MICROSECONDS = 1e6
MILLISECONDS = 1e3


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is measured.

    Attributes:
        folder: empty, for all files.
        definitions: of the sidecar.
        server_cpu: the core that it stays on; None: any.
        tell: shows progress.
    """

    folder: Path
    definitions: Path
    server_cpu: int | None
    tell: Tell

    @property
    def on_core(self) -> Sequence[str]:
        """What keeps a server on its core."""
        return () if self.server_cpu is None else ("--cpu", str(self.server_cpu))


@dataclass(frozen=True, slots=True)
class Weighed:
    """A running sidecar with its record in SQLite.

    Attributes:
        client: a caller; `another` has a list of open turns of its own.
    """

    server: Server
    client: SidecarClient
    another: SidecarClient
    folder: Path

    def memory(self) -> float:
        """Return what it has of physical memory now, in MB; pages that it shares with others included."""
        return resident(self.server.pid) / MEGABYTE

    def record(self) -> int:
        """Return the bytes of its record, with what SQLite has not yet moved into the main file; without lists."""
        return size_of(self.folder / RECORD) - self.lists()

    def lists(self) -> int:
        """Return the bytes of the rows of lists, which the projector writes."""
        return size_of(self.folder / LISTS)

    def lag(self) -> int:
        """Return how many facts on record the projector has not taken yet."""
        return facts_not_listed(self.folder)


@asynccontextmanager
async def weighed(place: Place, name: str, arguments: Sequence[str] = ()) -> AsyncIterator[Weighed]:
    """Start a sidecar. Raises `ServerLost`."""
    folder = place.folder / name
    folder.mkdir(mode=0o700)
    socket = folder / "sidecar.sock"
    said = ["--definitions", str(place.definitions), "--record", "sqlite", *place.on_core, *arguments]
    async with running("sidecar_server", socket, said) as server:
        secret = secret_file(socket).read_text(encoding="utf-8").strip()
        yield Weighed(server, SidecarClient(server.channel, secret), SidecarClient(server.channel, secret), folder)


def resident(pid: int) -> int:
    """Return the bytes of physical memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} has ended")


def size_of(database: Path) -> int:
    """Return the bytes of a SQLite database: its file, and those beside it."""
    return sum(file.stat().st_size for file in database.parent.glob(f"{database.name}*"))
