"""Counts what work costs where times would depend on the machine: calls, passes of the loop, statements, writes."""

import asyncio
import selectors
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from tests.support.call_counting import CallCounter

Result = TypeVar("Result")

NOW: Final = 1000.0
"""Seconds: the time of the loop, which stands still, so that no timer interferes."""
HANGING_SECONDS: Final = 60.0
"""After which a loop in which nothing happens is stuck."""
QUIET_SECONDS: Final = 0.02
"""How often to look whether what still runs in the background has ended."""
STATEMENT_WORDS: Final = 3
SHOWN: Final = 80
"""Characters of a statement."""
UNCOUNTED: Final = frozenset(
    {
        *("asyncio.base_events", "asyncio.events", "asyncio.selector_events", "asyncio.unix_events", "selectors"),
        *("queue", "threading"),
    }
)
"""The loop, which is uvloop where the sidecar serves, and the queue of the log, whose calls depend on its reader."""

LOG: Final = "-wal"
FRAME_HEADER: Final = 24
"""Bytes in front of each page in a write-ahead log; they begin with its number. Nothing else in it is as long."""

STAND_INS: Final = "tests.budgets.stand_ins"
"""One call each, as what they stand for."""
TESTS: Final = ("tests.", "scripts.", "__main__")


class Spot(NamedTuple):
    """Where something was counted: a module and a function of it; a statement; a file."""

    place: str
    detail: str = ""


Counts = Mapping[str, Counter[Spot]]
"""By figure: `calls`, `modules` (of the sidecar that are entered), `switches` (between them), `passes`, `statements`,
`writes`, `bytes`, `syncs`, `pages`, `messages`."""


def _nothing() -> defaultdict[Any, int]:
    """Return what counts without calling Python: a `Counter` would count itself."""
    return defaultdict(int)


@dataclass
class Meter:
    """What was counted since `begin`. Threads wait with each statement until the loop has nothing to do.

    So a writer finds everything queued that can be queued, and each run counts the same.
    """

    calls: CallCounter = field(default_factory=CallCounter)
    passes: int = 0
    statements: dict[str, int] = field(default_factory=_nothing)
    writes: dict[Spot, int] = field(default_factory=_nothing)
    bytes: dict[Spot, int] = field(default_factory=_nothing)
    syncs: dict[Spot, int] = field(default_factory=_nothing)
    pages: dict[tuple[str, int], int] = field(default_factory=_nothing)
    """Copies in a write-ahead log, by log and number of the page."""
    idle: threading.Event = field(default_factory=threading.Event)
    quiet: list[asyncio.Future[None]] = field(default_factory=list)

    async def count(
        self, works: Sequence[Awaitable[Result]], running: Callable[[], int]
    ) -> tuple[Sequence[Result], Counts]:
        """Await `works` together, and whatever they leave running in the background.

        Args:
            works: what is counted.
            running: how many tasks of the background have not ended.
        """
        self.statements, self.writes, self.bytes = _nothing(), _nothing(), _nothing()
        self.syncs, self.pages = _nothing(), _nothing()
        with self.calls.counting():
            self.passes = 0
            results = await asyncio.gather(*works)
            passes = self.passes
            while running():
                await self._quiet()
        return results, {
            "calls": calls_of(self.calls),
            "modules": Counter(dict.fromkeys(map(Spot, self.calls.switches), 1)),
            "switches": Counter({Spot(module): count for module, count in self.calls.switches.items()}),
            "passes": Counter({Spot("the loop"): passes}),
            "statements": _spots(self.statements),
            "writes": Counter(self.writes),
            "bytes": Counter(self.bytes),
            "syncs": Counter(self.syncs),
            "pages": Counter({Spot(log, str(number)): count for (log, number), count in self.pages.items()}),
        }

    async def _quiet(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self.quiet.append(waiting)
        await waiting


def calls_of(counter: CallCounter) -> Counter[Spot]:
    """Return the calls that are the sidecar's and its libraries', and not those of the tests or the loop."""
    found = ((Spot(*called), count) for called, count in counter.counted.items())
    return Counter({spot: count for spot, count in found if spot.place == STAND_INS or not _is_theirs(spot.place)})


def _is_theirs(module: str) -> bool:
    return module in UNCOUNTED or module.startswith(TESTS)


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop of asyncio whose time stands still.

    Args:
        meter: told of each pass.
    """

    def __init__(self, meter: Meter) -> None:
        super().__init__(_CountingSelector(meter))

    def time(self) -> float:
        """Return the same at all times."""
        return NOW


class _CountingSelector(selectors.DefaultSelector):
    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait as long as it takes: there are no timers."""
        self._meter.passes += 1
        if timeout == 0:
            return super().select(0)
        self._meter.idle.set()
        found = super().select(QUIET_SECONDS if self._meter.quiet else HANGING_SECONDS)
        self._meter.idle.clear()
        if not found and not self._meter.quiet:
            raise TimeoutError("what is counted waits for something that does not happen")
        while not found and self._meter.quiet:
            self._meter.quiet.pop().set_result(None)
        return found


@contextmanager
def watched_sqlite(meter: Meter) -> Iterator[None]:
    """Count statements and writes of each SQLite file that is opened meanwhile, and the calls of each new thread."""
    below = apsw.vfs_names()[0]
    disk = _Disk(meter, below)

    def hook(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda said: _note(meter, said))
        connection.set_exec_trace(lambda *_: meter.idle.wait())

    apsw.connection_hooks.append(hook)
    threading.setprofile(meter.calls.watch)
    try:
        yield
    finally:
        threading.setprofile(None)
        apsw.connection_hooks.remove(hook)
        disk.unregister()


def _note(meter: Meter, said: dict[str, Any]) -> None:
    if not said["trigger"]:
        meter.statements[said["sql"]] += 1


def _spots(statements: Mapping[str, int]) -> Counter[Spot]:
    """Return statements by their first words, which name the table."""
    found: Counter[Spot] = Counter()
    for statement, count in statements.items():
        words = statement.split()
        found[Spot(" ".join(words[:STATEMENT_WORDS]), " ".join(words)[:SHOWN])] += count
    return found


def tables_of(pages: Counter[Spot], folder: Path) -> Counter[Spot]:
    """Return the pages of SQLite's logs by the table or index that they belong to, and by their kind.

    Args:
        pages: copies by log and number.
        folder: of the files, which are closed.
    """
    found: Counter[Spot] = Counter()
    for log in {page.place for page in pages}:
        with closing(apsw.Connection(str(next(folder.rglob(log.removesuffix(LOG)))))) as connection:
            connection.set_exec_trace(None)  # of `watched_sqlite`, for which this would wait for ever
            owners = {
                str(number): Spot(table, kind)
                for number, table, kind in connection.execute("SELECT pageno, name, pagetype FROM dbstat")
            }
        for page, count in pages.items():
            if page.place == log:
                found[owners[page.detail]] += count
    return found


class _Disk(apsw.VFS):
    """The system's files, with each write counted."""

    def __init__(self, meter: Meter, below: str) -> None:
        super().__init__("counted", below, makedefault=True)
        self._meter = meter
        self._below = below

    def xOpen(self, name: Any, flags: list[int]) -> "_File":  # noqa: N802  SQLite's name
        return _File(self._meter, self._below, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, meter: Meter, below: str, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._spot = Spot(path.rpartition("/")[2])
        self._meter = meter
        super().__init__(below, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  SQLite's name
        self._meter.writes[self._spot] += 1
        self._meter.bytes[self._spot] += len(data)
        if len(data) == FRAME_HEADER and self._spot.place.endswith(LOG):
            self._meter.pages[self._spot.place, int.from_bytes(data[:4], "big")] += 1
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802  SQLite's name
        """Count it, and leave it out: nothing here has to outlive the power."""
        self._meter.syncs[self._spot] += 1
