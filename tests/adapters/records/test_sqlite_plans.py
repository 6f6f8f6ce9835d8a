"""Every statement of a turn's way, and every read that decides, finds its rows by an index: none goes through a table.

So what they take does not grow with the record, but for the depth of a tree.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import apsw
import pytest

from sidecar.adapters.record_sqlite import archive, reading, record_schema
from sidecar.core.identifiers import EpisodeId, TurnId
from tests.adapters.records.test_sqlite import SqliteBench
from tests.support.record_builders import a_dispatch, a_whole_turn
from tests.support.sqlite_statements import heard_statements

LATER: Final = datetime(2100, 1, 1, tzinfo=UTC)
EXPLAINED: Final = ("SELECT", "UPDATE")
SMALL: Final = ("SCAN CONSTANT ROW", "SCAN markers", "SCAN erasures", "SCAN facts USING INDEX facts_erased")
"""One row; one for each day that was removed; facts whose texts were erased."""


async def test_what_a_turn_and_reads_that_decide_take_finds_its_rows_by_an_index(tmp_path: Path) -> None:
    """A turn that ends, one that stays open, a restart, and all that is asked of them."""
    with heard_statements() as heard:
        async with SqliteBench(tmp_path / "record.sqlite") as bench:
            heard.clear()  # of the migrations
            first = await bench.open("first")
            await first.append([a_dispatch("open")])
            await first.append(a_whole_turn("turn-1", ("shop",), episode_id=EpisodeId("episode-1")))
            second = await bench.open("second")
            await second.projector.catch_up()
            await second.turn(TurnId("turn-1"))
            await second.attempts(TurnId("turn-1"))
            await second.last_dispatching_turn(EpisodeId("episode-1"))
            assert await second.left_behind(10) != []
            assert await second.overdue_turns(LATER, 10) == ["open"]
            assert await second.open_turns(10) == ["open"]

    plans = plans_of(heard)
    for table in ("turns", "facts", "attempt_frames", "roots", "instances"):
        assert any(table in statement for statement in plans), table
    assert {statement: scans(plan) for statement, plan in plans.items() if scans(plan)} == {}


@pytest.mark.parametrize("statement", [reading.OPEN, reading.NEWEST_OPEN])
def test_open_turns_are_found_among_open_turns(statement: str) -> None:
    """Not among all, by number: there may be millions of those."""
    (plan,) = plans_of([statement]).values()
    assert plan[0] == "SCAN turns USING INDEX turns_open"


@pytest.mark.parametrize("statement", [archive.YOUNG, archive.BOUNDS, f"DELETE FROM facts WHERE {archive.TURN_OF_DAY}"])
def test_the_turns_of_a_day_are_found_by_the_day(statement: str) -> None:
    """By retention and verifying, which go by days: else each day of the record costs a pass over all turns."""
    (plan,) = plans_of([statement.replace("DELETE FROM facts", "SELECT 1 FROM facts")]).values()
    assert scans(plan) == []
    assert any("turns_by_day" in step for step in plan), plan


def plans_of(statements: list[str]) -> dict[str, list[str]]:
    """Return how SQLite goes about the statements that concern the record."""
    connection = apsw.Connection(":memory:")
    for migration in record_schema().migrations:
        connection.execute(migration.sql)
    plans = {}
    for statement in dict.fromkeys(each.strip() for each in statements):
        if statement.startswith(EXPLAINED) and not any(name in statement for name in ("pragma", "sqlite_")):
            values = (None,) * statement.count("?")
            try:
                rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
            except apsw.SQLError:  # of the rows of lists, which have a file and tests of their own
                continue
            plans[statement] = [str(detail) for *_, detail in rows]
    return plans


def scans(plan: list[str]) -> list[str]:
    """Return what goes through a table or an index from one end to the other, but for small ones."""
    allowed = (*SMALL, "SCAN turns USING INDEX turns_open")
    return [each for each in plan if each.startswith("SCAN") and each not in allowed]
