"""The committed report of the mutation tests: of the modules that it is about, and of the list of reasons."""

import tomllib
from fnmatch import fnmatch

from scripts.mutation_report import (
    EQUIVALENT,
    MEASURED,
    REPORT,
    changed_since,
    digests_of_mutated,
    read_equivalents,
    read_measured,
    report,
    rows_in,
)
from tests.architecture.reading import REPOSITORY


def test_the_report_is_of_this_list_and_of_these_modules() -> None:
    """Every reason of the list, every pattern of the tool's settings, and no mutant that lives without a reason.

    After a change of a mutated module run `make mutants ARGS=<its dotted name>`, or let the page say that its row is
    older: `python -m scripts.mutation_report`.
    """
    text, known = REPORT.read_text(encoding="utf-8"), read_equivalents(EQUIVALENT.read_text(encoding="utf-8"))
    rows = rows_in(text)
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    paths = [f"{row.module.replace('.', '/')}.py" for row in rows]
    gone = [path for path in paths if not (REPOSITORY / path).exists()]

    assert gone == []
    measured = read_measured(MEASURED.read_text(encoding="utf-8"))
    assert report(rows, known, changed_since(measured, digests_of_mutated())) == text
    assert [row.module for row in rows if row.surviving] == []
    for pattern in settings["only_mutate"]:
        assert any(fnmatch(path, pattern) for path in paths), pattern
    for path in paths:
        assert any(fnmatch(path, pattern) for pattern in settings["only_mutate"]), path


def test_a_listed_mutant_is_of_a_module_that_is_there() -> None:
    """A function that has gone takes its reasons with it."""
    for entry in read_equivalents(EQUIVALENT.read_text(encoding="utf-8")):
        place = entry.places[0]
        source = (REPOSITORY / f"{place.module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert f"def {place.function.rpartition('.')[2]}(" in source, place
