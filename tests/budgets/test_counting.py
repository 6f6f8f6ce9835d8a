"""The counts are right, and a rise of any of them is found, with its place."""

import asyncio
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from scripts.benchmark.processes import REPOSITORY
from scripts.benchmark.sidecar_server import MEMORY, SQLITE
from sidecar.adapters.sqlite.worker import Worker
from tests.budgets.ceilings import by_place, kept, risen
from tests.budgets.meter import CountingLoop, Counts, Meter, Spot, watched_sqlite
from tests.budgets.scenarios import AT_ONCE
from tests.budgets.stand_ins import NoChance
from tests.budgets.table import CHILDREN, FURTHER, TABLE, Budget
from tests.support.call_counting import CallCounter

PLACE: Final = Spot("sidecar.core.place", "function")
OTHER: Final = Spot("asyncio.tasks", "gather")
FOUND: Final = Counter({PLACE: 3, OTHER: 2})
CALLS: Final = Budget("one", "memory", "calls")


class GivesWay:
    """Waits for the next pass of the loop, without a call of a library."""

    def __await__(self) -> Generator[None, None, None]:
        """Give way."""
        yield


def count(passes: int, calls: int, statements: Sequence[str], file: Path) -> Counts:
    """Count a work that consists of so many of each; the statements in a thread of their own."""
    meter = Meter()

    def execute() -> None:
        connection = apsw.Connection(str(file))
        for statement in statements:
            connection.execute(statement)
        connection.close()

    async def work() -> None:
        for _ in range(passes):
            await GivesWay()
        for _ in range(calls):
            NoChance().uniform(0, 1)
        await worker.run(execute)

    with watched_sqlite(meter), asyncio.Runner(loop_factory=lambda: CountingLoop(meter)) as runner:
        worker = Worker("statements")
        _, counts = runner.run(meter.count([work()], lambda: 0))
        worker.stop()
    return counts


def totals(counts: Counts) -> dict[str, int]:
    """Leave the places out."""
    return {figure: spots.total() for figure, spots in counts.items()}


@pytest.mark.parametrize("figure", ["passes", "calls", "statements"])
def test_one_more_counts_as_one_more(figure: str, tmp_path: Path) -> None:
    """One pass of the loop, one call, one statement, and nothing else changes."""
    more = {"passes": (3, 4, 2), "calls": (2, 5, 2), "statements": (2, 4, 3)}[figure]
    least, found = (
        totals(count(passes, calls, ["SELECT 1"] * statements, tmp_path / "empty"))
        for passes, calls, statements in ((2, 4, 2), more)
    )
    assert {each: found[each] - least[each] for each in found if found[each] != least[each]} == {figure: 1}


def test_a_switch_is_a_call_that_enters_another_module_of_the_sidecar() -> None:
    """Two calls in `a`, then one in a library, `a` again, `b`, `a`: three entries, of two modules."""
    made: dict[str, dict[str, Any]] = {name: {"__name__": name} for name in ("sidecar.a", "library", "sidecar.b")}
    for names in made.values():
        exec("def called(): pass", names)
    counter = CallCounter()
    with counter.counting():
        for name in ("sidecar.a", "sidecar.a", "library", "sidecar.a", "sidecar.b", "sidecar.a"):
            made[name]["called"]()
    assert counter.switches == {"sidecar.a": 2, "sidecar.b": 1}


def test_writes_are_those_of_the_file(tmp_path: Path) -> None:
    """A table in a new file of two pages: each is written once; a journal beside it, and what is not synced counts."""
    counts = count(0, 0, ["PRAGMA journal_mode = MEMORY", "CREATE TABLE made (x)"], tmp_path / "made.sqlite")
    file = Spot("made.sqlite")
    assert counts["writes"] == {file: 2}
    assert counts["bytes"] == {file: (tmp_path / "made.sqlite").stat().st_size}
    assert counts["syncs"] == {file: 1}


@pytest.mark.parametrize("figure", sorted({budget.figure for budget in TABLE}))
def test_a_rise_is_told_with_its_place(figure: str) -> None:
    """One more than the ceiling, of each kind of budget."""
    problem = risen(replace(CALLS, figure=figure), FOUND, {PLACE.place: 2, OTHER.place: 2})
    assert "5, 1 more than the ceiling of 4" in problem
    assert "+1 sidecar.core.place: function 3" in problem


@pytest.mark.parametrize("ceiling", [{PLACE.place: 3, OTHER.place: 2}, {"elsewhere": 5}, {PLACE.place: 9}])
def test_what_does_not_rise_is_let_through(ceiling: dict[str, int]) -> None:
    """As much as the ceiling, as much in other places, less."""
    assert risen(CALLS, FOUND, ceiling) == ""


def test_places_are_summed_up() -> None:
    """The details of one place together."""
    assert by_place(Counter({PLACE: 1, Spot(PLACE.place, "other"): 2})) == {PLACE.place: 3}


DOCUMENTED: Final[dict[str, Budget]] = {
    "Python calls, one child, no store": Budget("one", MEMORY, "calls"),
    "modules entered": Budget("one", MEMORY, "modules"),
    "changes of the module": Budget("one", MEMORY, "switches"),
    "Python calls, each further child, no store": Budget(FURTHER, MEMORY, "calls", CHILDREN),
    "bytes written, one child, durable": Budget("one, queued", SQLITE, "bytes", AT_ONCE),
    "bytes written, eight children, durable": Budget("eight, queued", SQLITE, "bytes", AT_ONCE),
    "durable, 16 queued": Budget("one, queued", SQLITE, "calls", AT_ONCE),
    "over a session lane, no store": Budget("one, over a lane", MEMORY, "calls", AT_ONCE),
    "over a session lane, durable": Budget("one, over a lane", SQLITE, "calls", AT_ONCE),
}
"""Budgets by their row in `docs/benchmarks.md`; the last cell of a row is the count."""


@pytest.mark.parametrize("row", DOCUMENTED)
def test_the_documentation_has_the_figures_that_were_counted(row: str) -> None:
    """For one dispatch, or one child."""
    text = (REPOSITORY / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {row} |")]
    budget = DOCUMENTED[row]
    assert budget in [replace(each, gate=None) for each in TABLE]
    counted = round(sum(kept()[str(budget)].values()) / budget.per)
    assert int(line.split("|")[-2].replace(",", "")) == counted
