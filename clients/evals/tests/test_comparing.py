"""Two runs, case by case, and which revisions can be compared."""

from pathlib import Path

import pytest

from clients.evals.tests.support.trials import case_of, run_of, trial_of
from subagents_evals.measures.comparison import UnusableRevision, checked_out, compared, revisions_of
from subagents_evals.measures.results import Measured, Run


def run_with(*right: bool, called: str = "rewards") -> Run:
    """Return a run over as many cases, of which these were routed right."""
    trials = [
        trial_of(case_of(f"case-{number}", "shop"), "shop" if one else called) for number, one in enumerate(right)
    ]
    return run_of(*trials)


def test_cases_are_compared_one_by_one() -> None:
    """Right in both, in neither, worse, better."""
    (everything, shop, *_) = compared(run_with(True, False, True, False), run_with(True, False, False, True)).groups

    assert (everything.both, everything.neither, everything.cases) == (1, 1, 4)
    assert (everything.worse, everything.better, everything.p) == (["case-2"], ["case-3"], 1.0)
    assert shop.worse == everything.worse


@pytest.mark.parametrize(
    ("worse", "better", "sure"), [(5, 0, False), (6, 0, True), (9, 1, True), (7, 2, False), (0, 9, False)]
)
def test_worse_is_what_chance_does_not_explain(worse: int, better: int, *, sure: bool) -> None:
    """Six cases that got worse and none that got better; one that got better is no harm."""
    before = run_with(*[True] * worse, *[False] * better, True)
    after = run_with(*[False] * worse, *[True] * better, True)

    assert bool(compared(before, after).worse) is sure


def test_a_neighbour_that_got_worse_shows_at_the_neighbour() -> None:
    """All cases together hide it: as many of the other sub-agent got better."""

    def run(shop: str, support: str) -> Run:
        shops = [trial_of(case_of(f"shop-{number}", "shop"), shop) for number in range(8)]
        others = [trial_of(case_of(f"support-{number}", "support"), support) for number in range(8)]
        return run_of(*shops, *others)

    found = compared(run("shop", "shop"), run("support", "support"))

    assert [one.name for one in found.worse] == ["shop"]


def test_only_cases_of_both_runs_are_compared_and_changed_definitions_are_named() -> None:
    """A case that was added is no change."""
    before, after = run_with(True), run_with(True, False)
    digests = [Measured("shop", "shop", "shop", "sha256:other", "c"), *after.definitions[1:]]

    found = compared(before, run_of(*after.trials, definitions=digests))

    assert (found.groups[0].cases, found.changed) == (1, ["shop"])


def test_with_repetitions_a_case_is_right_if_most_of_its_trials_are() -> None:
    """Two of three."""
    case = case_of("one", "shop")
    often = run_of(*(trial_of(case, called, repetition=at) for at, called in enumerate(["shop", "rewards", "shop"])))

    assert compared(often, often).groups[0].both == 1


@pytest.mark.parametrize("span", ["main", "..", "..HEAD", "--exec=x..HEAD", "main..--output=x", "main...HEAD"])
def test_a_span_is_two_revisions_and_no_option_of_git(span: str) -> None:
    """Whatever git could take for an option is refused."""
    with pytest.raises(UnusableRevision):
        revisions_of(span)


def test_a_revision_that_git_does_not_know_is_refused(tmp_path: Path) -> None:
    """With git's own words; so is a folder outside of any repository."""
    with pytest.raises(UnusableRevision, match="not a git repository"):
        checked_out(tmp_path, "main", tmp_path / "out")
    assert checked_out(tmp_path, "", tmp_path / "out") == tmp_path
