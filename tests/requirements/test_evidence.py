"""The page of evidence for auditors lists the tests that there are."""

import pytest

from scripts.evidence import GUARANTEES, NO_RUN, PAGE, Guarantee, listed_in, page_of, shown_by
from tests.requirements import CATALOGUE
from tests.support.requirement import requirement


@requirement("PC1-D-60")
def test_the_page_of_evidence_lists_exactly_the_tests_that_carry_its_rows() -> None:
    """Guarantees, rows, tests and their sentences; results, commit and date are those of its last run."""
    page = PAGE.read_text("utf-8")

    assert listed_in(page) == listed_in(page_of({}, NO_RUN)), "docs/evidence is not current: run `make evidence`"
    assert "FAILED" not in page
    assert "not run" not in page


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda each: each.title)
def test_every_row_of_a_guarantee_is_shown_by_a_test(guarantee: Guarantee) -> None:
    """None is only claimed."""
    shown = {row for each in shown_by(guarantee) for row in each.rows}
    assert shown == set(guarantee.rows)


def test_a_test_that_is_gone_or_renamed_makes_the_page_stale() -> None:
    """And a change of a result, of the commit or of the date does not."""
    page = page_of({}, "Run on Monday.")
    sentence = shown_by(GUARANTEES[0])[0].sentence

    assert listed_in(page.replace("not run", "passed").replace("Monday", "Tuesday")) == listed_in(page)
    assert listed_in(page.replace(sentence, "something else")) != listed_in(page)
    assert CATALOGUE["PC1-D-60"].sentence
