"""Another revision beside this tree: how it is checked out, what is refused, how the figures are compared."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from scripts.benchmark.load import Sample
from scripts.benchmark.plan import Plan
from scripts.benchmark.report import as_json, show
from scripts.benchmark.revisions import LOCK, Revision, RevisionProblem, checked_out
from scripts.benchmark.targets import MANY, SIDECAR, TWIN, at
from tests.support.git_commands import git
from tests.unit.benchmark.test_judging import a_series, sample


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits, `old` and `new`, that need the same libraries."""
    folder = tmp_path / "repository"
    (folder / "requirements").mkdir(parents=True)
    (folder / "clients" / "python").mkdir(parents=True)
    git(folder, "init", "-q", "--template=")
    for name in ("old", "new"):
        (folder / LOCK).write_text("grpcio==1\n", encoding="utf-8")
        (folder / "module.py").write_text(name, encoding="utf-8")
        for project in (".", "clients/python"):
            (folder / project / "pyproject.toml").write_text("", encoding="utf-8")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", name)
        git(folder, "tag", name)
    return folder


def test_a_revision_is_checked_out_beside_the_tree_and_removed_afterwards(repository: Path) -> None:
    """Its packages come first where Python looks; what is not committed stays as it is."""
    (repository / "module.py").write_text("not committed", encoding="utf-8")

    with checked_out("old", repository) as found:
        assert (found.tree / "module.py").read_text(encoding="utf-8") == "old"
        assert found.environment()["PYTHONPATH"] == f"{found.tree}:{found.tree / 'clients' / 'python'}"

    assert not found.tree.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert (repository / "module.py").read_text(encoding="utf-8") == "not committed"


@pytest.mark.parametrize("name", ["nothing", "--help", "HEAD:module.py", ""])
def test_what_is_no_revision_is_refused(name: str, repository: Path) -> None:
    """No such name, an option, a file, nothing."""
    with pytest.raises(RevisionProblem, match="is no revision of this repository"), checked_out(name, repository):
        pass


def test_a_revision_that_needs_other_libraries_is_refused(repository: Path) -> None:
    """Both would run with the libraries of this tree; it says which file differs."""
    (repository / LOCK).write_text("grpcio==2\n", encoding="utf-8")

    with pytest.raises(RevisionProblem, match=f"{LOCK} of old differs"), checked_out("old", repository):
        pass


def test_figures_of_the_same_round_are_compared(tmp_path: Path) -> None:
    """A tenth faster in each round, however much the rounds differ from each other; other targets are not compared."""
    own = [sample(rate=1100.0), sample(rate=550.0), sample(rate=110.0)]
    other = [sample(rate=1000.0), sample(rate=500.0), sample(rate=100.0)]
    plan = Plan(rounds=3, against=Revision("old", tmp_path))

    (compared,) = as_json(with_other(own, other), plan)["compared"]

    assert (compared["target"], compared["in_flight"]) == (SIDECAR, MANY)
    assert {name: round(value, 6) for name, value in compared["rate"].items()} == {
        "median": 1.1,
        "min": 1.1,
        "max": 1.1,
    }
    assert compared["p50"]["median"] == 1


@pytest.mark.parametrize(("twin", "void"), [(1000.0, 0), (800.0, 3)])
def test_every_table_of_a_void_run_says_that_it_is_void(twin: float, void: int, tmp_path: Path) -> None:
    """The figures, those beside the other revision, and the aims."""
    series = {**with_other([sample()] * 3, [sample()] * 3), (TWIN, MANY): [sample(rate=twin)] * 3}
    plan, out = Plan(rounds=3, against=Revision("old", tmp_path)), StringIO()

    show(series, plan, Console(file=out, width=200))

    assert out.getvalue().count("VOID") == void
    assert "this tree against old" in out.getvalue()
    assert as_json(series, plan)["void"] is bool(void)


def with_other(own: list[Sample], other: list[Sample]) -> dict[tuple[str, int], list[Sample]]:
    """Return a run in which one target was also measured in another revision."""
    return {
        **{key: list(each) for key, each in a_series().items()},
        (SIDECAR, MANY): own,
        (at(SIDECAR, "old"), MANY): other,
    }
