"""Every row of the catalogue is settled once: by a test, or by a written reason."""

from pathlib import Path
from typing import Final

import pytest

from tests.requirements import CATALOGUE, Row, by_id, rules
from tests.requirements.claims import Claim, claims_in, claims_under
from tests.requirements.unproven import EVALS, OPEN_ISSUES, UNPROVEN, expand, reasons

ROOT: Final = Path(__file__).resolve().parents[2]
MOST_EVALS: Final = 6
ROWS_BY_DOCUMENT: Final = {"PC1": 165, "PC2": 177, "PF1": 176, "SX": 53}


def listed(findings: list[str], what: str) -> str:
    """The message of a failed rule: how many, and each on its line."""
    return f"{len(findings)} {what}:\n  " + "\n  ".join(findings)


def test_the_catalogue_has_every_row_of_the_four_documents() -> None:
    """Counted by document: 571 in all."""
    counts = dict.fromkeys(ROWS_BY_DOCUMENT, 0)
    for one in CATALOGUE:
        counts[one.split("-")[0]] += 1
    assert counts == ROWS_BY_DOCUMENT


def test_every_row_says_something_and_where_it_comes_from() -> None:
    """No sentence twice within a document, none empty, each with a source."""
    sentences = [(row.id.split("-")[0], row.sentence) for row in CATALOGUE.values()]
    assert len(set(sentences)) == len(sentences)
    assert [row.id for row in CATALOGUE.values() if not row.sentence.endswith((".", "``")) or not row.source] == []


def test_every_id_on_a_test_is_in_the_catalogue() -> None:
    """A misspelt id would look like proof."""
    findings = rules.unknown(claims_under(ROOT), CATALOGUE)
    assert not findings, listed(findings, "ids that no row has")


def test_every_row_has_a_test_or_a_written_reason() -> None:
    """Whatever is listed here needs `@requirement` on a test, or an entry in unproven.py."""
    findings = rules.unsettled(claims_under(ROOT), CATALOGUE, UNPROVEN)
    shown = [f"{one}  {CATALOGUE[one].sentence}" for one in findings]
    assert not findings, listed(shown, "rows without test and without reason")


def test_no_row_has_both_a_test_and_a_reason() -> None:
    """A proven row leaves unproven.py in the same change."""
    findings = rules.settled_twice(claims_under(ROOT), UNPROVEN)
    assert not findings, listed(findings, "rows settled twice")


def test_every_reason_is_of_a_known_form_and_waits_for_open_issues_only() -> None:
    """`later:` is no place to leave a row for good."""
    findings = rules.bad_reasons(UNPROVEN, CATALOGUE, OPEN_ISSUES)
    assert not findings, listed(findings, "reasons that do not hold")


def test_what_only_a_real_model_or_real_traffic_can_show_stays_six_rows() -> None:
    """Whatever else an evaluation can measure has a test with the offline router."""
    excused = [one for one, reason in UNPROVEN.items() if reason.startswith(EVALS)]
    assert len(excused) <= MOST_EVALS, listed(excused, f"rows that wait for a real model, at most {MOST_EVALS}")


def test_no_test_names_more_rows_than_it_can_prove() -> None:
    """At most four."""
    findings = rules.overfull(claims_under(ROOT))
    assert not findings, listed(findings, "tests with too many rows")


def test_functional_and_acceptance_rows_are_proven_from_outside() -> None:
    """FR and AC ids stand on tests through a public RPC or the command line."""
    findings = rules.misplaced(claims_under(ROOT))
    assert not findings, listed(findings, "FR or AC ids on inner tests")


def test_every_claim_is_a_literal_on_a_test_that_runs() -> None:
    """The scan reads sources, so a computed id or a mark on a builder would be lost."""
    findings = rules.worthless(claims_under(ROOT))
    assert not findings, listed(findings, "claims that prove nothing")


PLANTED: Final = """
import pytest
from tests.support.requirement import requirement

@requirement("PC2-AC-4a", "PC2-FR-7c")
async def test_surplus_calls_are_dropped(): ...

@requirement("SX-1")
class TestChildren:
    @pytest.mark.requirement("SX-2", "SX-3")
    @requirement("SX-5", "SX-6")
    def test_have_contracts(self): ...

    def not_marked_itself(self): ...

@requirement(NAME)
def test_computed(): ...

@pytest.mark.parametrize("case", [pytest.param(1, marks=requirement("PC1-T-2"))])
def test_one_case_proves(case): ...

def test_without_claim(): ...
"""


def planted(path: str = "tests/unit/test_planted.py") -> dict[str, Claim]:
    """The claims in `PLANTED` by test, as if it stood in `path`."""
    return {claim.test: claim for claim in claims_in(PLANTED, path)}


def test_the_scan_finds_marks_on_functions_classes_and_cases() -> None:
    """Async or not, own name or pytest's, and adds up what stands around a test."""
    ids = {test: claim.ids for test, claim in planted().items()}
    assert ids["test_surplus_calls_are_dropped"] == ("PC2-AC-4a", "PC2-FR-7c")
    assert ids["TestChildren.test_have_contracts"] == ("SX-1", "SX-2", "SX-3", "SX-5", "SX-6")
    assert ids["test_one_case_proves"] == ("PC1-T-2",)
    assert "test_without_claim" not in ids


def test_a_computed_id_and_a_mark_off_the_tests_are_found() -> None:
    """Both would be claims that nobody checks."""
    found = rules.worthless(planted().values())
    assert [line.split("::")[1] for line in found] == [
        "TestChildren.not_marked_itself sits on something that pytest never runs",
        "test_computed names a row by something other than a string literal",
    ]
    assert len(rules.worthless(planted("tests/support/builders.py").values())) == len(planted()) + 1


def test_the_scan_reads_every_folder_that_may_hold_tests(tmp_path: Path) -> None:
    """Planted files in tests, plugins and clients are read, installed packages are not."""
    for place in ("tests/rpc", "plugins/one/tests", "clients/python/tests", "clients/web/node_modules/x"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "test_it.py").write_text('@requirement("SX-1")\ndef test_it(): ...\n', "utf-8")
    assert [claim.path for claim in claims_under(tmp_path)] == [
        "tests/rpc/test_it.py",
        "plugins/one/tests/test_it.py",
        "clients/python/tests/test_it.py",
    ]


def test_an_unknown_id_is_found() -> None:
    """`PC2-FR-7z` is nobody's row."""
    claim = Claim("tests/rpc/test_x.py", "test_x", ("PC2-FR-7c", "PC2-FR-7z"))
    assert rules.unknown([claim], CATALOGUE) == ["tests/rpc/test_x.py::test_x: no row PC2-FR-7z"]


def test_a_row_with_neither_test_nor_reason_is_found() -> None:
    """One claimed, one excused, one left over."""
    claim = Claim("tests/rpc/test_x.py", "test_x", ("A-FR-1",))
    assert rules.unsettled([claim], ["A-FR-1", "A-FR-2", "A-FR-3"], {"A-FR-2"}) == ["A-FR-3"]


def test_a_row_with_both_is_found() -> None:
    """The reason is shown, so that one sees what to take out."""
    claim = Claim("tests/rpc/test_x.py", "test_x", ("A-FR-1",))
    (finding,) = rules.settled_twice([claim], {"A-FR-1": "later: Something", "A-FR-2": "later: Something"})
    assert finding.endswith("proves A-FR-1; take it out of unproven.py (later: Something)")


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("later: An issue long done", "not open"),
        ("later: ", "no reason"),
        ("because", "no reason"),
        ("document row: ", "no reason"),
    ],
)
def test_a_reason_that_does_not_hold_is_found(reason: str, part: str) -> None:
    """Closed issue, empty text, no known form."""
    (finding,) = rules.bad_reasons({"SX-1": reason}, CATALOGUE, {"An open issue"})
    assert part in finding


def test_a_reason_for_a_row_that_does_not_exist_is_found() -> None:
    """A leftover of a renamed row."""
    assert rules.bad_reasons({"SX-99": "document row: why"}, CATALOGUE, ()) == ["unproven.py: no row SX-99"]


def test_a_fifth_row_on_a_test_is_found() -> None:
    """Four pass; the planted class and its function have five together."""
    assert rules.overfull([Claim("tests/rpc/test_x.py", "test_x", ("SX-1", "SX-2", "SX-3", "SX-5"))]) == []
    (finding,) = rules.overfull(planted().values())
    assert finding.endswith("::TestChildren.test_have_contracts names 5")


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("tests/unit/test_x.py", True),
        ("tests/simulation/deep/test_x.py", True),
        ("plugins/conformance/sidecar_conformance/test_x.py", True),
        ("tests/rpc/dispatch/test_x.py", False),
        ("tests/cli/test_x.py", False),
        ("tests/system/test_x.py", False),
        ("clients/python/tests/test_x.py", False),
        ("plugins/gates/tests/test_x.py", False),
    ],
)
def test_a_functional_row_on_an_inner_test_is_found(path: str, inside: bool) -> None:
    """FR and AC are held to public places; D, T, NFR and SX may stand anywhere."""
    ids = ("PC2-FR-7c", "PC2-AC-4a", "PC2-D-3", "PC2-NFR-2", "PC2-T-7", "SX-1")
    found = [line.rsplit(" ", 1)[1] for line in rules.misplaced([Claim(path, "test_x", ids)])]
    assert found == (["PC2-FR-7c", "PC2-AC-4a"] if inside else [])


def test_groups_of_ids_expand_and_refuse_slips() -> None:
    """Ranges, lettered endings; a falling range, a missing colon and a double are refused."""
    assert list(expand("PC1-T: 6..8 10a")) == ["PC1-T-6", "PC1-T-7", "PC1-T-8", "PC1-T-10a"]
    with pytest.raises(ValueError, match="does not rise"):
        list(expand("PC1-T: 8..6"))
    with pytest.raises(ValueError, match="no colon"):
        list(expand("PC1-T 6"))
    with pytest.raises(ValueError, match="SX-2 is there twice"):
        reasons([("later: One", ("SX: 1..3",)), ("later: Two", ("SX: 2",))])


def test_two_rows_of_one_id_are_refused() -> None:
    """The second would silently replace the first."""
    row = Row("SX-1", "Something holds.", "SX §1")
    with pytest.raises(ValueError, match="SX-1 is there twice"):
        by_id([row, row])
