"""What PostgreSQL does while it is loaded: CPU time, commits, write-ahead log, connections, and what it waits for."""

import asyncio
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


@asynccontextmanager
async def watched(server: Postgres, database: str) -> AsyncIterator[Watched]:
    """Watch a server while something goes on with one of its databases; what is watched is complete afterwards."""
    import asyncpg  # noqa: PLC0415  missing where there is no PostgreSQL to watch either

    address = f"postgresql://{USER}@/postgres?host={server.folder}&port={PORT}"
    counting: Any = await asyncpg.connect(address)
    looking: Any = await asyncpg.connect(address)
    result = Watched()
    try:
        before, cpu = await counting.fetchrow(COUNTED, database), _cpu_seconds(server.pid)
        look = asyncio.create_task(_look(looking, database, result))
        try:
            yield result
        finally:
            look.cancel()
            await asyncio.wait([look])
        result.cpu = _cpu_seconds(server.pid) - cpu
        await asyncio.sleep(1.0)  # a server tells its statistics once a second
        after = await counting.fetchrow(COUNTED, database)
        result.commits, result.syncs = after["commits"] - before["commits"], after["syncs"] - before["syncs"]
        result.log_bytes, result.connections = after["log_bytes"] - before["log_bytes"], after["connections"]
    finally:
        looking.terminate()
        await counting.close()


async def _look(connection: Any, database: str, result: Watched) -> None:
    while True:
        for row in await connection.fetch(WAITS, database):
            result.waits[row["what"]] += row["many"]
        await asyncio.sleep(EVERY_SECONDS)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its children that still run."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    found = 0.0
    for each in (pid, *map(int, children)):
        try:
            found += cpu_seconds(each)
        except OSError:  # it has just ended
            continue
    return found
