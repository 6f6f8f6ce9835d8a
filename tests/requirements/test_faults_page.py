"""The page of faults and attacks names tests that exist, and says plainly which rows are open."""

from dataclasses import replace
from typing import Any

import pytest

from tests.evidence.page import OPEN, PAGE, ROWS, Row, page_of, problems_of, rows_of

FAULTS = 60


def the_rows() -> list[Row]:
    """Return the rows of the file."""
    return list(rows_of(ROWS.read_text("utf-8")))


def test_each_of_the_sixty_rows_names_tests_that_exist() -> None:
    """With its fault, its promise, and what it lacks if it is open."""
    rows = the_rows()

    assert len(rows) == FAULTS
    assert list(problems_of(rows)) == []


def test_the_page_is_what_the_rows_say() -> None:
    """And an open row shows what is missing in place of a figure."""
    rows = the_rows()

    page = PAGE.read_text("utf-8")

    assert page == page_of(rows), "run `python -m tests.evidence.page`"
    assert page.count(OPEN) == sum(bool(row.missing) for row in rows)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tests": ["tests/rpc/test_cap.py::test_nothing_of_that_name"]}, "does not exist"),
        ({"tests": ["tests/rpc/test_no_file.py"]}, "has no test"),
        ({"tests": []}, "lacks"),
        ({"promise": ""}, "lacks"),
        ({"number": 7}, "numbered"),
    ],
)
def test_a_row_that_proves_nothing_is_found(changed: dict[str, Any], said: str) -> None:
    """A test that was renamed, a file that is gone, a row without a test or a promise, a number that is left out."""
    row = replace(the_rows()[0], **changed)
    assert said in next(problems_of([row]))
