"""Writes docs/evidence/faults.md: `python -m tests.evidence.page`. The rows are in `rows.toml`."""

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROWS: Final = Path(__file__).with_name("rows.toml")
PAGE: Final = ROOT / "docs" / "evidence" / "faults.md"
REFERENCE: Final = "@"
"""Begins the name of a figure that the table `figures` has."""
OPEN: Final = "**open**: "
HEAD: Final = """\
# Evidence: faults and attacks

Written by `python -m tests.evidence.page` from `tests/evidence/rows.toml`; do not edit. A test fails when this page is
not current, or names a test that does not exist. The tests run in `make test`; figures come from `make torture`,
`make bench` and [torture](../torture.md). A row that is marked open lacks what it says, and the tests beside it show
the part that holds.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One fault.

    Attributes:
        tests: files, or `file::test`.
        figure: what a long run came to; may be empty.
        missing: what the row lacks; empty if it is green.
    """

    number: int
    area: str
    fault: str
    promise: str
    tests: Sequence[str]
    figure: str
    missing: str


def rows_of(text: str) -> Sequence[Row]:
    """Return the rows that a file says. Raises `KeyError` for a figure that the file does not have."""
    said = tomllib.loads(text)
    return [_row(each, said["figures"]) for each in said["row"]]


def _row(said: Mapping[str, object], figures: Mapping[str, str]) -> Row:
    figure = str(said.get("figure", ""))
    shown = figures[figure.removeprefix(REFERENCE)] if figure.startswith(REFERENCE) else figure
    tests = said["tests"]
    assert isinstance(tests, list)
    number = said["number"]
    assert isinstance(number, int)
    area, fault, promise = (str(said[name]) for name in ("area", "fault", "promise"))
    return Row(number, area, fault, promise, tests, shown, str(said.get("missing", "")))


def page_of(rows: Sequence[Row]) -> str:
    """Return the page."""
    green = sum(not row.missing for row in rows)
    parts = [HEAD, f"{green} of {len(rows)} rows are green.\n"]
    for area, of_area in groupby(rows, lambda row: row.area):
        parts.append(f"## {area}\n")
        parts.append("| row | fault | promise | tests | figure |\n|---|---|---|---|---|")
        parts += [_line(row) for row in of_area]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _line(row: Row) -> str:
    tests = "<br>".join(f"`{test}`" for test in row.tests)
    figure = OPEN + row.missing if row.missing else row.figure
    cells = (str(row.number), row.fault, row.promise, tests, figure)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def problems_of(rows: Sequence[Row]) -> Iterator[str]:
    """Yield each row without a promise or a test, each test that does not exist, and each gap in the numbers."""
    if [row.number for row in rows] != list(range(1, len(rows) + 1)):
        yield f"the rows are numbered {[row.number for row in rows]}"
    for row in rows:
        if not (row.fault and row.promise and row.tests):
            yield f"row {row.number} lacks a fault, a promise or a test"
        for test in row.tests:
            file, _, name = test.partition("::")
            if name and name not in _tests_in(file):
                yield f"row {row.number}: {test} does not exist"
            elif not name and not _tests_in(file):
                yield f"row {row.number}: {test} has no test"


@cache
def _tests_in(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(each.name for each in functions if each.name.startswith("test_"))


if __name__ == "__main__":
    PAGE.write_text(page_of(rows_of(ROWS.read_text("utf-8"))), "utf-8")
