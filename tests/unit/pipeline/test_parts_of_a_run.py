"""`make check` and `make test` run their parts several at a time, and fail as one."""

import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scripts.run_parts import (
    FAILED_TESTS,
    NONE_CHOSEN,
    PLANS,
    REPEATED,
    ROOT,
    TESTS_FAILED,
    Ended,
    Part,
    Plan,
    Running,
    code_of,
    repeated,
    run,
)


def saying(name: str, code: int = 0, *, chooses: bool = False) -> Part:
    """Return a part that says its name and its arguments, and ends with a code."""
    script = f"import sys; print('I am {name}', *sys.argv[1:], flush=True); sys.exit({code})"
    return Part(name, (sys.executable, "-c", script), chooses)


def reached_by(part: Part) -> tuple[list[str], list[str]]:
    """Return the folders that a part of `make test` is given, and those that it leaves out."""
    words = part.command[part.command.index("-q") + 1 :]
    left_out = [word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")]
    return [word for word in words if word[0] != "-" and not word.isdecimal()], left_out


def codes(ended: list[Ended]) -> dict[str, int]:
    """Return how each part ended."""
    return {each.part.name: each.code for each in ended}


def test_all_parts_run_and_each_says_its_words_and_its_time(capfd: pytest.CaptureFixture[str]) -> None:
    """One that fails beside the tests takes nothing from them; only what chooses tests is given the arguments."""
    beside = (saying("types", 2), saying("simulations", chooses=True))
    plan = Plan((saying("lint"),), saying("tests", chooses=True), beside)
    ended = run(plan, ["-k", "cap"], Running())
    said = capfd.readouterr().out

    assert codes(ended) == {"lint": 0, "tests": 0, "types": 2, "simulations": 0}
    assert said.startswith("== lint\nI am lint\n== tests; beside: types, simulations\nI am tests -k cap\n")
    assert said.endswith("== types\nI am types\n== simulations\nI am simulations -k cap\n")
    assert all(each.seconds > 0 and each.cpu > 0 for each in ended)
    assert [each.line().endswith(" FAILED") for each in ended if each.code] == [True]
    assert code_of(ended) == 2


def test_what_comes_first_ends_the_run_if_it_fails(capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody wants to wait for tests to hear of a line that is too long."""
    ended = run(Plan((saying("lint", 3), saying("protos")), saying("tests"), (saying("types"),)), [], Running())

    assert codes(ended) == {"lint": 3}
    assert capfd.readouterr().out == "== lint\nI am lint\n"
    assert code_of(ended) == 3


def test_each_test_is_in_one_part_of_make_test() -> None:
    """Each folder in which pytest looks for tests is one part's; what that part leaves out is another part's."""
    plan = PLANS["test"]
    reached = [reached_by(part) for part in (plan.front, *plan.beside) if part.chooses]
    given = sorted(folder for folders, _ in reached for folder in folders)
    left_out = {folder for _, folders in reached for folder in folders}
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]
    assert given == sorted({*listed, *left_out})


@pytest.mark.parametrize(
    ("tests", "simulations", "types", "code"),
    [
        (0, 0, 0, 0),
        (0, NONE_CHOSEN, 0, 0),
        (NONE_CHOSEN, 0, 0, 0),
        (NONE_CHOSEN, NONE_CHOSEN, 0, NONE_CHOSEN),
        (NONE_CHOSEN, NONE_CHOSEN, 1, 1),
        (1, NONE_CHOSEN, 0, 1),
        (0, 2, 0, 2),
        (0, 0, NONE_CHOSEN, NONE_CHOSEN),
        (-9, 0, 0, 9),
    ],
)
def test_the_run_fails_if_a_part_does_and_if_no_test_was_chosen_anywhere(
    tests: int, simulations: int, types: int, code: int
) -> None:
    """A part without a chosen test is none that failed, unless there is none at all; one that was killed has failed."""
    choosing = {"tests": tests, "simulations": simulations}
    ended = [Ended(Part(name, (), chooses=True), each, 1, 1) for name, each in choosing.items()]
    assert code_of([*ended, Ended(Part("types", ()), types, 1, 1)]) == code


TESTS = Part("tests", (), chooses=True)
PASSES_SECOND = """
from pathlib import Path

def test_it() -> None:
    first = Path(__file__).with_name("first")
    tried = first.exists()
    first.touch()
    assert tried

def test_another() -> None:
    assert not Path(__file__).with_name("broken").exists()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of this repository, so that its hooks serve the tests in it, that no other run looks into."""
    parent = ROOT / ".pytest_cache"
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as made:
        (Path(made) / "test_twice.py").write_text(PASSES_SECOND, encoding="utf-8")
        yield Path(made)


def of_tests(folder: Path) -> Part:
    """Return a part that runs the tests of a folder, as `make test` runs its own."""
    return Part("tests", (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)), chooses=True)


def test_a_test_that_fails_once_is_run_again_and_named(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The run passes, and says at its end which test is unstable."""
    (ended,) = run(Plan((), of_tests(folder), (), repeats=True), [], Running())

    assert (ended.code, len(ended.unstable)) == (0, 1)
    assert ended.unstable[0].endswith("test_twice.py::test_it")
    assert ended.line().endswith(f"UNSTABLE: {ended.unstable[0]}")
    assert "== once more, alone: " in capfd.readouterr().out


def test_a_test_that_fails_twice_fails_the_run(folder: Path) -> None:
    """Another that passes the second time does not help."""
    (folder / "broken").touch()

    (ended,) = run(Plan((), of_tests(folder), (), repeats=True), [], Running())

    assert (ended.code, ended.unstable) == (TESTS_FAILED, ())


def test_a_plan_that_repeats_nothing_fails_at_once(folder: Path) -> None:
    """`make check` is for people, who run a test again themselves."""
    (ended,) = run(Plan((), of_tests(folder), ()), [], Running())

    assert ended.code == TESTS_FAILED
    assert [name for name, plan in PLANS.items() if plan.repeats] == ["test"]


@pytest.mark.parametrize(
    ("failed", "also"),
    [
        (["a"] * (REPEATED + 1), ()),
        ([], ()),
        (["a"], (Ended(Part("types", ()), 1, 1, 1),)),
        (["a"], (Ended(Part("simulations", (), chooses=True), 3, 1, 1),)),
    ],
    ids=["too many", "none named", "types failed", "another part stopped"],
)
def test_nothing_is_repeated_where_that_could_not_save_the_run(failed: list[str], also: Sequence[Ended]) -> None:
    """A run of many failures is wrong, not unlucky; and so is one in which something else than a test failed."""
    ended = [Ended(TESTS, TESTS_FAILED, 1, 1), *also]
    assert repeated(ended, {TESTS: failed}, Running()) == ended


def test_both_sides_agree_on_the_name_of_the_file() -> None:
    """Otherwise no test would ever be repeated, and nothing would say so."""
    assert FAILED_TESTS in (ROOT / "tests/support/failed_tests.py").read_text(encoding="utf-8")
