"""Figures of trials that are known, counted by hand."""

import msgspec
import pytest

from clients.evals.tests.support.trials import SLOTS, case_of, run_of, trial_of
from subagents_evals.inputs.cases import EarlierTurn, Fault, Kind
from subagents_evals.measures.metrics import NONE, confusion_of, figures_of, measured
from subagents_evals.measures.results import gate_metrics
from subagents_evals.measures.trial import DelegatedRequest
from tests.support.requirement import requirement

RIGHT = trial_of(case_of("right", "shop"), "shop")
SWAPPED = trial_of(case_of("swapped", "shop"), "rewards")
MISSED = trial_of(case_of("missed", "shop", "support"), "support")
TALK = trial_of(case_of("talk"), "rewards")


def test_precision_and_recall_are_those_of_each_tool() -> None:
    """Shop was wanted three times and called once; rewards was called twice and never wanted."""
    tools = measured([RIGHT, SWAPPED, MISSED, TALK], SLOTS).tools

    assert (tools["shop"].precision.value, tools["shop"].recall.value) == (1.0, pytest.approx(1 / 3))
    assert (tools["rewards"].precision.value, tools["rewards"].recall.value) == (0.0, None)
    assert (tools["support"].precision.value, tools["support"].recall.value) == (1.0, 1.0)


def test_the_confusion_matrix_says_what_became_of_each_wanted_call() -> None:
    """Right, swapped, lost, and called out of nothing."""
    confusion = confusion_of([RIGHT, SWAPPED, MISSED, TALK], SLOTS)

    assert confusion["shop"] == {"shop": 1, "rewards": 1, "support": 0, NONE: 1}
    assert confusion["support"]["support"] == 1
    assert confusion[NONE] == {"shop": 0, "rewards": 1, "support": 0, NONE: 0}


def test_a_tool_that_does_not_exist_shows_in_the_confusion_matrix() -> None:
    """A model may call what is not on the surface."""
    confusion = confusion_of([trial_of(case_of("one", "shop"), "travel")], SLOTS)

    assert confusion["shop"]["travel"] == 1


def test_calls_too_many_and_too_few_are_counted_apart() -> None:
    """A swap is both; a repeated call is neither."""
    figures = figures_of([RIGHT, SWAPPED, MISSED, TALK, trial_of(case_of("twice", "shop"), "shop", "shop")])

    assert (figures.over_called.hits, figures.under_called.hits, figures.repeated.hits) == (2, 2, 1)
    assert (figures.routing.hits, figures.routing.of) == (2, 5)


def test_repetitions_of_a_case_are_one_observation() -> None:
    """Three trials of one case, one of another: half a case right, of two, and the interval of two."""
    case = case_of("one", "shop")
    trials = [trial_of(case, called, repetition=number) for number, called in enumerate(["shop", "rewards"])]

    figures = figures_of([*trials, SWAPPED])

    assert (figures.cases, figures.routing.hits, figures.routing.of) == (2, 0.5, 2)


@requirement("PC1-OBS-1", "PC2-OBS-1", "PC2-NFR-3b")
def test_the_figures_of_a_sub_agent_are_of_the_cases_that_are_about_it() -> None:
    """Those that want it, forbid it, or want none at all; switches stand apart."""
    earlier = (EarlierTurn("Hi", "An offer.", ("shop",)),)
    switch = case_of("switch", "rewards", kind=Kind.SWITCH, history=earlier, forbidden=("shop",))
    other = trial_of(case_of("other", "support"), "shop")
    run = run_of(RIGHT, trial_of(switch, "shop"), TALK, other)

    shop, rewards = gate_metrics(run, "shop"), gate_metrics(run, "rewards")

    assert (shop["cases"], shop["routing_accuracy"], shop["switch_accuracy"]) == (3.0, round(1 / 3, 4), 0.0)
    assert (rewards["cases"], rewards["routing_accuracy"]) == (2.0, 0.0)


@requirement("PC1-OBS-5", "PC1-OBS-7")
def test_quality_safety_format_and_references_are_scored_for_each_sub_agent() -> None:
    """Each over the cases that try it, and by the vertical that they are about."""
    told = (EarlierTurn("And?", "It is A-1.", ("support",)),)
    trick = case_of("trick", "shop", kind=Kind.INJECTION, forbidden=("rewards",))
    refers = case_of("refers", "shop", history=told, needs={"shop": ("A-1",)})
    run = run_of(
        trial_of(trick, "shop", "rewards"),
        trial_of(refers, "shop", handed=(DelegatedRequest("shop", "about A-1", ""),)),
        msgspec.structs.replace(trial_of(case_of("form", "shop"), "shop", malformed=("shop",)), quality=0.5),
    )

    shop, rewards = gate_metrics(run, "shop"), gate_metrics(run, "rewards")

    assert (shop["safety"], rewards["safety"], shop["references_resolved"], shop["quality"]) == (0.0, 0.0, 1.0, 0.5)
    assert (shop["format_compliance"], rewards["format_compliance"]) == (round(2 / 3, 4), 1.0)
    assert {"quality", "references_resolved"} & set(rewards) == set()


@requirement("PC1-OBS-4", "PC2-D-57")
def test_recall_admissions_and_times_are_reported_for_each_sub_agent() -> None:
    """Of the cases that have them; a metric without a case is absent, not zero."""
    recall = case_of("recall", "shop", needs={"shop": ("A-1", "B-2")})
    fault = case_of("fault", "shop", faults={"shop": Fault.ERROR}, acknowledge={"shop": ("offers",)})
    run = run_of(
        trial_of(
            recall, "shop", handed=(DelegatedRequest("shop", "A-1", ""),), seconds_to_status=0.2, seconds_to_answer=1.0
        ),
        trial_of(
            fault,
            "shop",
            answer="Sorry, no offers.",
            stated=("shop",),
            seconds_to_status=0.4,
            seconds_to_answer=3.0,
            longest_silence=2.6,
            status_events=2,
        ),
    )

    found = gate_metrics(run, "shop")

    assert (found["entity_recall"], found["failures_admitted"]) == (0.5, 1.0)
    assert (found["status_p95_seconds"], found["p95_seconds"]) == (0.4, 3.0)
    assert (found["silence_p95_seconds"], found["status_events_p95"]) == (2.6, 2.0)
    assert {"quality", "switch_accuracy"} & set(found) == set()


@requirement("PC2-FR-14a")
def test_what_the_model_states_is_told_apart_from_what_is_noted_beside_and_from_what_is_stated_falsely() -> None:
    """One each of three failures; the user is told of two."""
    fault = case_of("fault", "shop", faults={"shop": Fault.ERROR}, acknowledge={"shop": ("offers",)})
    all_ = figures_of(
        [
            trial_of(fault, "shop", answer="Sorry, no offers.", stated=("shop",)),
            trial_of(fault, "shop", answer="Fine.\n\nSorry.", notes="Sorry.", noted=("shop",)),
            trial_of(fault, "shop", answer="Fine.", stated=("shop",)),
        ]
    )

    assert (all_.admitted.hits, all_.admitted.of) == (2, 3)
    assert (all_.stated.hits, all_.noted.hits, all_.falsely_stated.hits) == (2, 1, 1)
