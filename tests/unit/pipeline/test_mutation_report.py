"""`make mutants` compares what lives with a list of equivalent mutants, and neither may say more than the other."""

import tomllib

import pytest

from scripts.mutants import function_of
from scripts.mutation_report import (
    Comparison,
    Place,
    Row,
    change_of,
    changed_since,
    code_digest,
    compare,
    read_equivalents,
    read_measured,
    report,
    rows_in,
    table,
    with_newer,
    write_measured,
)

LIST = """
[[equivalent]]
module = "sidecar.core.a"
function = "f"
reason = "Both are the same."
changes = ['''
    - x < 1
    + x <= 1
    ''', "- y\\n+ z"]
"""
ONE, OTHER = Place("sidecar.core.a", "f", "- x < 1\n+ x <= 1"), Place("sidecar.core.a", "f", "- y\n+ z")
ELSEWHERE = Place("sidecar.core.b", "f", "- y\n+ z")
KNOWN = read_equivalents(LIST)


def compared(*live: Place, **totals: tuple[int, int]) -> Comparison:
    """Compare a run of module `a`, or of others, with the list."""
    return compare({f"sidecar.core.{name}": each for name, each in (totals or {"a": (9, 7)}).items()}, live, KNOWN)


def test_a_run_holds_if_exactly_the_listed_mutants_live() -> None:
    """The indentation of a change, in the list or in the source, is no difference."""
    found = compared(ONE, OTHER)
    assert (found.holds, found.surviving, found.outdated) == (True, (), ())
    assert found.rows == (Row("sidecar.core.a", 9, 7, 2),)
    assert found.rows[0].surviving == 0


@pytest.mark.parametrize(
    ("live", "surviving", "outdated"),
    [
        ((ONE, OTHER, ELSEWHERE), (ELSEWHERE,), ()),
        ((ONE, OTHER, ONE), (ONE,), ()),
        ((ONE,), (), (OTHER,)),
        ((), (), (ONE, OTHER)),
        ((ONE, ELSEWHERE), (ELSEWHERE,), (OTHER,)),
    ],
)
def test_a_run_fails_for_each_mutant_without_reason_and_each_reason_without_mutant(
    live: tuple[Place, ...], surviving: tuple[Place, ...], outdated: tuple[Place, ...]
) -> None:
    """Another module, the same change twice, one that was killed by now."""
    found = compared(*live, a=(9, 7), b=(1, 0))
    assert (found.holds, found.surviving, found.outdated) == (False, surviving, outdated)
    assert sum(row.surviving for row in found.rows) == sum(
        row.mutants - row.killed - row.equivalent for row in found.rows
    )


def test_entries_on_modules_that_were_not_looked_at_are_passed_over() -> None:
    """A run of one module says nothing of another."""
    assert compared(b=(3, 3)).holds
    assert not compared(b=(3, 3), a=(3, 3)).holds


def test_a_change_is_what_a_diff_removes_and_adds() -> None:
    """Without file names, positions and context."""
    diff = "--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n def f():\n-    return x < 1\n+    return x <= 1\n \n"
    assert change_of(diff) == "- return x < 1\n+ return x <= 1"


@pytest.mark.parametrize(
    ("mutant", "function"), [("a.b.x_f__mutmut_1", "f"), ("a.xǁC_dǁ__g____mutmut_12", "C_d.__g__")]
)
def test_the_name_of_a_mutant_says_its_function(mutant: str, function: str) -> None:
    """As it is written in the source."""
    assert function_of(mutant) == function


@pytest.mark.parametrize("missing", ["module", "function", "reason", "changes"])
def test_an_entry_that_lacks_anything_is_refused(missing: str) -> None:
    """An equivalent without a reason would be an exclusion."""
    entry = tomllib.loads(LIST)["equivalent"][0]
    lines = [f"{name} = {value!r}" for name, value in entry.items() if name != missing]
    text = "\n".join(["[[equivalent]]", *lines, *([f"{missing} = []"] if missing == "changes" else [])])
    with pytest.raises(ValueError, match="needs module, function, reason and changes"):
        read_equivalents(text)


def test_the_table_ends_with_the_sum() -> None:
    """Of every column."""
    assert table([Row("sidecar.core.a", 9, 7, 1), Row("sidecar.core.b", 2, 2, 0)])[2:] == [
        "| core.a | 9 | 7 | 1 | 1 |",
        "| core.b | 2 | 2 | 0 | 0 |",
        "| all | 11 | 9 | 1 | 1 |",
    ]


def test_a_run_of_some_modules_replaces_their_rows_of_the_report() -> None:
    """Others stay, and a module that has gone has no row."""
    before = rows_in(
        report([Row("sidecar.core.a", 9, 7, 2), Row("sidecar.core.b", 5, 5, 0)], KNOWN, ["sidecar.core.b"])
    )
    assert before == (Row("sidecar.core.a", 9, 7, 2), Row("sidecar.core.b", 5, 5, 0))
    newer, added = Row("sidecar.core.b", 6, 6, 0), Row("sidecar.core.0", 1, 1, 0)
    present = {"sidecar.core.0", "sidecar.core.a", "sidecar.core.b"}
    assert with_newer(before, [newer, added], present) == (added, before[0], newer)
    assert with_newer(before, [newer], {"sidecar.core.b"}) == (newer,)


CODE = 'def f(x: int) -> bool:\n    """Doc."""\n    return x < 1  # reason\n'


@pytest.mark.parametrize(
    "same", ['def f(x: int) -> bool:\n    """Other."""\n\n    return (x < 1)\n', "def f(x: int) -> bool: return x < 1"]
)
def test_comments_docstrings_and_layout_do_not_count_as_a_change(same: str) -> None:
    """No mutant is made of them."""
    assert code_digest(same) == code_digest(CODE)


@pytest.mark.parametrize(
    "other", [("x < 1", "x <= 1"), ("x < 1", "x < 2"), ("x < 1", "x < None"), ("f(x", "g(x"), ("bool", "int")]
)
def test_any_other_change_counts(other: tuple[str, str]) -> None:
    """Of an operator, a constant, a name, an annotation."""
    assert code_digest(CODE.replace(*other)) != code_digest(CODE)


def test_the_report_names_modules_that_have_changed_since_their_run() -> None:
    """Those that were never measured, too."""
    measured = read_measured(write_measured({"sidecar.core.a": "1", "sidecar.core.b": "2"}))
    changed = changed_since(measured, {"sidecar.core.a": "1", "sidecar.core.b": "3", "sidecar.core.c": "4"})

    assert changed == ("sidecar.core.b", "sidecar.core.c")
    assert "Modules that are new, or have changed, since their last run: `core.b`, `core.c`." in report(
        [], KNOWN, changed
    )
    assert "Modules that are new, or have changed, since their last run: none." in report([], KNOWN, [])
