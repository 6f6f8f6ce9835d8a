"""What PostgreSQL does while it is loaded: CPU time, commits, write-ahead log, connections, and what it waits for."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.benchmark.postgres import PORT, USER, Postgres
from scripts.benchmark.processes import cpu_seconds

EVERY_SECONDS: Final = 0.05
COUNTED: Final = """
select (select xact_commit from pg_stat_database where datname = $1) as commits,
  (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint as log_bytes, (select wal_sync from pg_stat_wal) as syncs,
  (select count(*) from pg_stat_activity where datname = $1) as connections
"""
CLIENTS: Final = "select count(*) from pg_stat_activity where datname = $1"
LOOKS: Final = 100
WAITS: Final = """
select coalesce(wait_event_type || ' ' || wait_event, 'working') as what, count(*) as many from pg_stat_activity
where datname = $1 and state = 'active' group by 1
"""


@dataclass(slots=True)
class Watched:
    """What it did meanwhile.

    Attributes:
        cpu: seconds of CPU time of all its processes.
        commits, syncs: so many.
        log_bytes: of its write-ahead log.
        connections: to the database, at the end.
        waits: how often an active connection was seen waiting for what, or working.
    """

    cpu: float = 0.0
    commits: int = 0
    syncs: int = 0
    log_bytes: int = 0
    connections: int = 0
    waits: Counter[str] = field(default_factory=Counter)

    def shares(self) -> Mapping[str, float]:
        """Return which part of all that was seen each wait is, the largest first."""
        whole = self.waits.total()
        return {name: count / whole for name, count in self.waits.most_common()}


class Watching:
    """Watches a server during an operation on one of its databases. Created by `watching`."""

    def __init__(self, server: Postgres, database: str, counting: Any, looking: Any) -> None:
        self.result = Watched()
        self._server = server
        self._database = database
        self._counting = counting
        self._looking = looking
        self._before: Any = None

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Watch for as long as this is entered, once."""
        result, cpu = self.result, _cpu_seconds(self._server.pid)
        self._before = await self._counting.fetchrow(COUNTED, self._database)
        look = asyncio.create_task(_look(self._looking, self._database, result))
        try:
            yield
        finally:
            look.cancel()
            await asyncio.wait([look])
        result.cpu = _cpu_seconds(self._server.pid) - cpu
        after = await self._counting.fetchrow(COUNTED, self._database)
        result.log_bytes = after["log_bytes"] - self._before["log_bytes"]
        result.connections = after["connections"]

    async def count(self) -> Watched:
        """Return everything, once all clients have left: only then are their commits counted for sure."""
        for _ in range(LOOKS):
            if not await self._counting.fetchval(CLIENTS, self._database):
                break
            await asyncio.sleep(EVERY_SECONDS)
        after = await self._counting.fetchrow(COUNTED, self._database)
        self.result.commits = after["commits"] - self._before["commits"]
        self.result.syncs = after["syncs"] - self._before["syncs"]
        return self.result


@asynccontextmanager
async def watching(server: Postgres, database: str) -> AsyncIterator[Watching]:
    """Connect to another database of the server, to watch one."""
    import asyncpg  # noqa: PLC0415  missing where there is no PostgreSQL to watch either

    address = f"postgresql://{USER}@/postgres?host={server.folder}&port={PORT}"
    counting: Any = await asyncpg.connect(address)
    looking: Any = await asyncpg.connect(address)
    try:
        yield Watching(server, database, counting, looking)
    finally:
        looking.terminate()
        counting.terminate()


async def _look(connection: Any, database: str, result: Watched) -> None:
    while True:
        for row in await connection.fetch(WAITS, database):
            result.waits[row["what"]] += row["many"]
        await asyncio.sleep(EVERY_SECONDS)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its children: those that run, and those that have ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    of_ended = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[13:15]
    found = sum(map(int, of_ended)) / os.sysconf("SC_CLK_TCK")
    for each in (pid, *map(int, children)):
        try:
            found += cpu_seconds(each)
        except OSError:  # it has just ended
            continue
    return found
