"""In PostgreSQL, every read that decides finds its rows by an index, in a record of many turns.

The server makes the plans, with its own estimates of a filled and analysed record. A plan is checked for its index,
because an index that is read from one end to the other is no better than a scan.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

import pytest

from sidecar.adapters.postgresql import ConnectionTimeouts, upgrade
from sidecar.adapters.record_postgresql import SCHEMA, reads
from tests.adapters.records.postgresql_bench import connection_to
from tests.support.postgres import PostgresServer

TURNS: Final = 10_000
DAYS: Final = (date(2026, 3, 1), date(2026, 3, 2))
OPEN_EACH: Final = 500
"""One turn of so many is open, and each open one has unsettled calls of a dead sidecar."""
NOW: Final = datetime(2026, 3, 2, 12, tzinfo=UTC)
FILL: Final = f"""
select journal_partition('{DAYS[0]}'), journal_partition('{DAYS[1]}');
insert into instances select 'dead-' || n, now(), now() - interval '1 day' from generate_series(1, 20) n;
insert into turn_heads (turn_id, day, version, began_at, episode_id, expires_at, ended_at, called, unsettled)
  select 'turn-' || n, '{DAYS[0]}'::date + n % 2, 2, '{DAYS[0]}'::timestamptz + n * interval '1 s', 'episode-' || n / 5,
    '{DAYS[0]}'::timestamptz + n * interval '2 s',
    case when n % {OPEN_EACH} > 0 then '{DAYS[0]}'::timestamptz + n * interval '1 s' end, n % {OPEN_EACH} > 0,
    case when n % {OPEN_EACH} = 0 then jsonb_build_array(jsonb_build_array('dispatch-' || n, 'dead-1')) end
  from generate_series(1, {TURNS}) n;
insert into facts (day, turn_id, version, instance_id, number, at, body, link)
  select '{DAYS[0]}'::date + n % 2, 'turn-' || n, version, 'dead-1', 2 * n + version, now(), '', ''
  from generate_series(1, {TURNS}) n, generate_series(1, 2) version;
insert into attempt_frames (day, turn_id, attempt_id, step, number, frames)
  select '{DAYS[0]}'::date + n % 2, 'turn-' || n, 'attempt-' || n, 0, 1, '' from generate_series(1, {TURNS}) n;
insert into roots select 'dead-' || n, '{DAYS[0]}', 1, 1, '' from generate_series(1, 20) n;
analyze turn_heads, facts, attempt_frames, instances, roots;
"""


@dataclass(frozen=True)
class Read:
    """A read that decides.

    Attributes:
        indexes: each of which the plan uses, or one of whose partitions it uses.
    """

    sql: str
    values: tuple[Any, ...]
    indexes: tuple[str, ...]


READS: Final = {
    "the day of a turn": Read(reads.DAY, ("turn-7",), ("turn_heads_pkey",)),
    "resume: all facts of a turn": Read(reads.FACTS, (DAYS[0], ["turn-8"]), ("facts_20260301_pkey", "turn_heads_pkey")),
    "the frames of a turn": Read(reads.FRAMES, (DAYS[1], "turn-7"), ("attempt_frames_20260302_pkey",)),
    "the last turn of an episode that called": Read(reads.LAST_CALLED, ("episode-3",), ("turn_heads_that_called",)),
    "work that a dead sidecar left": Read(reads.LEFT_BEHIND, ("alive", 100), ("turn_heads_open",)),
    "overdue turns": Read(reads.OVERDUE, (NOW, 100), ("turn_heads_open",)),
    "open turns, which also pin definitions": Read(reads.NEWEST_OPEN, (None, 100), ("turn_heads_open",)),
    "open turns before one": Read(reads.NEWEST_OPEN, ("turn-500", 100), ("turn_heads_open", "turn_heads_pkey")),
    "verifying: the facts of a day": Read(
        reads.OF_DAY, (DAYS[0], "dead-1", 7, 500), ("facts_20260301_instance_id_number_idx",)
    ),
    "days that retention may remove": Read(reads.REMOVABLE, (NOW,), ()),
}
IS_OVER: Final = re.compile(r"create function journal_is_over\(.*?\$\$(.*?)\$\$", re.DOTALL)
EXISTS: Final = re.compile(r"exists \((select [^()]*)\)")
OF_A_TURN: Final = ("turn_heads", "facts", "attempt_frames")
"""Tables that grow with the turns; partitions have a suffix."""


@pytest.fixture(scope="module")
def filled(postgres: PostgresServer) -> Iterator[str]:
    """Return the address of a record of many turns, which no test changes."""
    name = postgres.new_database()

    async def fill() -> None:
        await upgrade(postgres.dsn(name), SCHEMA, ConnectionTimeouts())
        async with connection_to(postgres.dsn(name)) as connection:
            await connection.execute(FILL)

    asyncio.run(fill())
    yield postgres.dsn(name)
    postgres.sql(f"drop database {name} with (force)")


@pytest.mark.parametrize("named", READS)
async def test_a_read_that_decides_uses_an_index(named: str, filled: str) -> None:
    """Whatever it is about: a turn, an episode, or what is open."""
    read = READS[named]
    async with connection_to(filled) as connection:
        plan = await plan_of(connection, read.sql, *read.values)
    assert scanned(plan) == []
    assert missing(read.indexes, plan) == []


@pytest.mark.parametrize(
    ("dropped", "named"),
    [
        ("turn_heads_open", "work that a dead sidecar left"),
        ("turn_heads_open", "overdue turns"),
        ("turn_heads_open", "open turns, which also pin definitions"),
        ("turn_heads_that_called", "the last turn of an episode that called"),
    ],
)
async def test_a_missing_index_is_found(dropped: str, named: str, filled: str) -> None:
    """The same check, without the index."""
    read = READS[named]
    async with connection_to(filled) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"drop index {dropped}")
        plan = await plan_of(connection, read.sql, *read.values)
        await transaction.rollback()
    assert scanned(plan) or missing(read.indexes, plan) == [dropped]


async def test_whether_a_day_is_over_is_asked_of_an_index(filled: str) -> None:
    """By retention, once a day of the record: each part of the function's one statement, as the migration has it."""
    [function] = IS_OVER.findall("".join(step.sql for step in SCHEMA))
    asked = EXISTS.findall(function.replace("p_day", f"'{DAYS[1]}'").replace("p_before", f"'{NOW}'"))
    assert len(asked) == 2
    async with connection_to(filled) as connection:
        for part in asked:
            plan = await plan_of(connection, f"{part} limit 1")
            assert scanned(plan) == []
            assert missing(("turn_heads_by_day",), plan) == [] or missing(("turn_heads_open",), plan) == []


async def plan_of(connection: Any, sql: str, *values: Any) -> list[dict[str, Any]]:
    """Return the nodes of the server's plan."""
    (found,) = json.loads(await connection.fetchval(f"explain (format json) {sql}", *values))
    return list(_nodes(found["Plan"]))


def scanned(plan: list[dict[str, Any]]) -> list[str]:
    """Return the tables of turns that the plan reads from one end to the other, or by an index without a condition.

    A partial index of open turns has only open turns: reading all of it is what is asked for.
    """
    found = []
    for node in plan:
        if not node.get("Relation Name", "").startswith(OF_A_TURN) or "Index Cond" in node:
            continue
        index = node.get("Index Name")
        if index != "turn_heads_open" and node["Node Type"] != "Bitmap Heap Scan":  # the index is a node below that one
            found.append(index or node["Relation Name"])
    return found


def missing(indexes: tuple[str, ...], plan: list[dict[str, Any]]) -> list[str]:
    """Return the expected indexes that the plan does not use."""
    used = {node.get("Index Name") for node in plan}
    return [index for index in indexes if index not in used]


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for each in node.get("Plans", ()):
        yield from _nodes(each)
