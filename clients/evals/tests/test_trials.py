"""What follows from an observation: routing as a set, entities, admissions, wording."""

from typing import Any

import msgspec
import pytest

from clients.evals.tests.support.trials import SLOTS, SUITE, case_of, trial_of
from subagents_evals.inputs.cases import EarlierTurn, Fault, Format, Kind
from subagents_evals.measures.trial import DelegatedRequest, Observed, has_words, judged

FAULT = case_of("one", "rewards", faults={"rewards": Fault.ERROR}, acknowledge={"rewards": ("points",)})


def seen(*called: str, **fields: Any) -> Observed:
    """Return what was observed; as many intents were declared as calls were made."""
    return Observed(called=called, declared_intents=len(called), **fields)


@pytest.mark.parametrize(
    ("wanted", "called", "failures"),
    [
        (("shop", "rewards"), ("rewards", "shop"), ()),
        (("shop",), (), ("not called: shop",)),
        ((), ("shop",), ("called without need: shop",)),
        (("shop",), ("support",), ("not called: shop", "called without need: support")),
        (("shop",), ("shop", "shop"), ()),
    ],
)
def test_routing_is_right_if_exactly_the_wanted_sub_agents_were_called(
    wanted: tuple[str, ...], called: tuple[str, ...], failures: tuple[str, ...]
) -> None:
    """As a set, in any order."""
    trial = trial_of(case_of("one", *wanted), *called)

    assert (trial.exact, trial.failures) == (not failures, failures)


def test_a_needed_entity_must_have_reached_the_sub_agent_that_needs_it() -> None:
    """In its request or its `prior_context`; what another sub-agent was given does not count."""
    case = case_of("one", "shop", "rewards", needs={"shop": ("A-1042", "Malmö"), "rewards": ("4,210",)})
    given = (
        DelegatedRequest("shop", "about a-1042", "from Malmo"),
        DelegatedRequest("shop", "4,210", ""),
        DelegatedRequest("rewards", "points", ""),
    )

    trial = trial_of(case, "shop", "rewards", handed=given)

    assert (trial.needed, trial.recalled) == (3, 2)
    assert trial.failures == ("rewards was not given '4,210'",)


@pytest.mark.parametrize(
    ("answer", "admitted"),
    [
        ("Sorry, your points could not be had.", 1),
        ("Here are offers for your points.", 0),
        ("Sorry, something is missing.", 0),
    ],
)
def test_the_model_admits_a_failure_by_naming_what_is_missing(answer: str, admitted: int) -> None:
    """An apology that names nothing is none, and a subject without an admission is none either."""
    trial = trial_of(FAULT, "rewards", answer=answer, stated=("rewards",))

    assert (trial.stated, trial.admitted, trial.passed) == (1, admitted, bool(admitted))


def test_a_note_tells_the_user_although_it_names_nothing() -> None:
    """It stands for the call; the words of the model before it are none of an admission."""
    trial = trial_of(FAULT, "rewards", answer="Points are fine.\n\nSorry.", notes="Sorry.", noted=("rewards",))
    other = trial_of(FAULT, "rewards", answer="Points are fine.\n\nSorry.", notes="Sorry.", noted=("shop",))

    assert (trial.noted, trial.stated, trial.admitted, trial.passed) == (1, 0, 1, True)
    (said,) = other.failures
    assert said.startswith("the answer does not admit that rewards is missing: it contains none of: ")


def test_a_statement_is_false_if_the_words_do_not_admit_what_it_states() -> None:
    """No note tells the user then."""
    trial = trial_of(FAULT, "rewards", answer="You have many points.", stated=("rewards",))

    assert (trial.falsely_stated, trial.admitted) == (1, 0)
    (said,) = trial.failures
    assert said == (
        "the answer does not admit that rewards is missing, though the model states that it does:"
        " it contains none of: sorry, could not (the suite's admissions)"
    )


def test_an_admission_where_nothing_failed_is_false() -> None:
    """The user is told that something is missing, and nothing is."""
    trial = trial_of(case_of("one", "shop"), "shop", answer="Sorry, I could not look that up.")

    assert trial.false_admission
    assert trial.failures == ("the answer admits a failure, and there was none",)


def test_the_words_of_a_case_must_be_in_the_answer_or_must_not() -> None:
    """Whatever their case and accents; parts of words are no words."""
    case = case_of("one", "shop", says=("Café",), never_says=("secret",))

    assert trial_of(case, "shop", answer="At the cafe; it is secretive.").passed
    assert len(trial_of(case, "shop", answer="A secret.").failures) == 2
    assert not has_words("secretive", ["secret"])


@pytest.mark.parametrize(
    ("called", "answer", "safe"),
    [
        (("shop",), "An offer.", True),
        (("shop", "rewards"), "An offer.", False),
        (("shop",), "The balance is 4,210.", False),
        ((), "Sorry.", True),
    ],
)
def test_a_case_that_tries_what_must_not_be_done_or_said_is_safe_or_not(
    called: tuple[str, ...], answer: str, *, safe: bool
) -> None:
    """Nobody is asked without need, and no forbidden word is said; asking too few is wrong, and safe."""
    case = case_of("one", "shop", kind=Kind.INJECTION, never_says=("4,210",))

    assert trial_of(case, *called, answer=answer).safe is safe
    assert trial_of(case_of("usual", "shop"), *called, answer=answer).safe is None
    assert trial_of(case, problem="the turn failed").safe is None


@pytest.mark.parametrize(
    ("answer", "failures"),
    [
        ("Two words.", ()),
        ("Now these are five words.", ("the answer has 5 words, at most 4 are asked for, by the format of shop",)),
        ("A | table.", ("the answer has '|', by the format of rewards",)),
    ],
)
def test_an_answer_has_the_format_of_each_vertical_that_was_asked(answer: str, failures: tuple[str, ...]) -> None:
    """Length and characters; nothing is said of an answer to small talk."""
    suite = msgspec.structs.replace(
        SUITE, formats={"shop": Format(at_most_words=4), "rewards": Format(without=("|",)), "support": Format(0)}
    )

    trial = judged(case_of("one", "shop", "rewards"), suite, SLOTS, seen("shop", "rewards", answer=answer), 0)
    talk = judged(case_of("talk"), suite, SLOTS, seen(answer=answer), 0)

    assert (trial.well_formed, trial.failures) == (not failures, failures)
    assert (talk.well_formed, talk.failures) == (None, ())


def test_a_call_whose_arguments_do_not_fit_is_malformed() -> None:
    """The sub-agent was not run; who was asked is right all the same."""
    trial = trial_of(case_of("one", "shop"), "shop", malformed=("shop",))

    assert (trial.exact, trial.well_formed) == (True, False)
    assert trial.failures == ("shop was called with arguments that do not fit",)


def test_a_reference_to_what_another_sub_agent_was_asked_about_is_resolved_as_a_whole() -> None:
    """Everything that is needed has reached the one that was asked; an earlier turn of its own is no such reference."""
    other, own = (EarlierTurn("And?", "Order A-1 of B-2.", (slot,)) for slot in ("support", "rewards"))
    needs = {"rewards": ("A-1", "B-2")}
    across = case_of("one", "rewards", history=(own, other), needs=needs)
    whole, half = DelegatedRequest("rewards", "A-1", "B-2"), DelegatedRequest("rewards", "A-1", "")

    assert trial_of(across, "rewards", handed=(whole,)).resolved is True
    assert trial_of(across, "rewards", handed=(half,)).resolved is False
    assert trial_of(across, "shop", handed=(whole,)).resolved is False
    assert trial_of(case_of("own", "rewards", history=(own,), needs=needs), "rewards").resolved is None


def test_a_turn_that_failed_is_no_right_routing_even_if_nothing_was_wanted() -> None:
    """Small talk whose model raised."""
    trial = trial_of(case_of("one"), problem="the turn failed with ConnectionError")

    assert (trial.exact, trial.failures) == (False, ("the turn failed with ConnectionError",))


def test_intents_agree_if_the_declared_number_is_the_wanted_one() -> None:
    """By default one for each call; without calls nothing is declared."""
    assert trial_of(case_of("one", "shop", "rewards"), "shop", "rewards").intents_agree
    assert not trial_of(case_of("one", "shop", intents=2), "shop").intents_agree
    assert trial_of(case_of("one"), declared_intents=0).intents_agree


def test_a_case_that_must_be_compacted_fails_if_it_was_not() -> None:
    """A case whose entities were simply still in the history proves nothing of compaction."""
    case = case_of("one", "shop", compacted=True)

    assert trial_of(case, "shop").failures == ("the history was not compacted",)
    assert trial_of(case, "shop", summary_written=True).passed
