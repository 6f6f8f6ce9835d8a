"""Which calls of a model response run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.call_arguments import ARGUMENTS_LIMIT
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.cap import CapBehaviour, cap_behaviour, split_at_cap, worst
from sidecar.core.dispatching.outcomes import MESSAGE_OF, Outcome
from sidecar.core.dispatching.plan import plan_dispatch
from sidecar.core.identifiers import CallId
from subagents_errors import CallFailure
from tests.support.builders import a_surface
from tests.support.requirement import requirement

GOOD = '{"request": "what is new?"}'


def calls(*tools: str) -> list[ToolCall]:
    """Return one well-formed call per tool name."""
    return [ToolCall(CallId(f"call-{number}"), tool, GOOD) for number, tool in enumerate(tools)]


@requirement("PC2-T-7", "PC2-D-17")
@given(st.lists(st.integers()), st.integers(min_value=0, max_value=12))
def test_splitting_keeps_every_call_and_its_order(emitted: list[int], places: int) -> None:
    """Run and dropped together are exactly the calls, in emission order, and no more run than there are places."""
    run, dropped = split_at_cap(emitted, places)

    assert [*run, *dropped] == emitted
    assert len(run) == min(places, len(emitted))


def test_a_negative_number_of_places_is_an_error() -> None:
    """It would silently keep calls from the end."""
    with pytest.raises(ValueError, match="must not be negative"):
        split_at_cap([1], -1)


@pytest.mark.parametrize(("emitted", "expected"), [(1, "within"), (2, "at"), (3, "over"), (0, "within")])
def test_cap_behaviour_compares_calls_with_places(emitted: int, expected: str) -> None:
    """With two places: fewer is within, as many is at, more is over."""
    assert cap_behaviour(emitted, 2) == expected


def test_the_worst_of_several_responses_counts() -> None:
    """One response over the cap makes the turn over the cap; a turn without any is within."""
    assert worst([CapBehaviour.WITHIN, CapBehaviour.OVER, CapBehaviour.AT]) is CapBehaviour.OVER
    assert worst([]) is CapBehaviour.WITHIN


def test_surplus_calls_are_dropped_from_the_end() -> None:
    """Two places, three calls: the last one is dropped and says why."""
    plan = plan_dispatch(a_surface("shop", "rewards", "support"), calls("ask_support", "ask_shop", "ask_rewards"), 0, 2)

    assert [planned.tool.slot for planned in plan.run] == ["support", "shop"]
    assert plan.settled[2].outcome is Outcome.DROPPED
    assert plan.settled[2].reason is CallFailure.OVER_CAP
    assert plan.cap is CapBehaviour.OVER


@requirement("PC2-D-1")
def test_a_tool_that_is_not_on_the_surface_is_refused() -> None:
    """Exact names only: no prefix, no other case, no bare slot."""
    names = ["ask_shop ", "ASK_shop", "ask_sho", "shop", "ask_shopp", ""]

    plan = plan_dispatch(a_surface("shop"), calls(*names), 0, 9)

    assert plan.run == ()
    assert {outcome.reason for outcome in plan.settled.values()} == {CallFailure.UNKNOWN_TOOL}
    assert all(outcome.sub_agent_id is None for outcome in plan.settled.values())


@pytest.mark.parametrize(
    "arguments",
    ["", "null", "[]", "{", '{"request": 1}', '{"other": "x"}', "{}", '{"request": "x"} tail', "[" * 5000, "\ud800"],
)
def test_arguments_that_do_not_fit_are_refused(arguments: str) -> None:
    """Not JSON, not an object, or against the tool's schema: the call is refused, and nothing else happens."""
    plan = plan_dispatch(a_surface("shop"), [ToolCall(CallId("c"), "ask_shop", arguments)], 0, 3)

    assert plan.settled[0].outcome is Outcome.REFUSED
    assert plan.settled[0].reason is CallFailure.ARGUMENTS_INVALID


def test_oversize_arguments_are_refused_whatever_they_hold() -> None:
    """One byte over the limit, counted in UTF-8."""
    text = '{"request": "%s"}'
    fitting = text % ("x" * (ARGUMENTS_LIMIT - len(text % "")))

    small = plan_dispatch(a_surface("shop"), [ToolCall(CallId("c"), "ask_shop", fitting)], 0, 1)
    large = plan_dispatch(a_surface("shop"), [ToolCall(CallId("c"), "ask_shop", fitting + " ")], 0, 1)

    assert len(small.run) == 1
    assert large.settled[0].reason is CallFailure.ARGUMENTS_INVALID


def test_a_refused_call_does_not_take_a_place() -> None:
    """One place, an unknown tool first: the good call runs and the cap is met, not passed."""
    plan = plan_dispatch(a_surface("shop"), calls("ask_nobody", "ask_shop"), 0, 1)

    assert [planned.tool.slot for planned in plan.run] == ["shop"]
    assert plan.cap is CapBehaviour.AT


def test_emission_indexes_go_on_over_the_turn() -> None:
    """A second dispatch of three calls after one of four starts at 4, refused calls included."""
    plan = plan_dispatch(a_surface("shop", "rewards"), calls("ask_shop", "ask_nobody", "ask_rewards"), 4, 3)

    assert [planned.step_idx for planned in plan.run] == [4, 6]
    assert (plan.first_step, plan.places) == (4, 3)
    assert plan.settled[1].emission_index == 5


@requirement("PC2-D-16", "PC2-D-64")
def test_called_sub_agents_are_counted_before_the_cap() -> None:
    """Three calls to two sub-agents, one place: both were called."""
    plan = plan_dispatch(a_surface("shop", "rewards"), calls("ask_shop", "ask_rewards", "ask_shop"), 0, 1)

    assert plan.called == ("shop", "rewards", "shop")
    assert len(plan.run) == 1


def test_the_largest_declared_intent_count_is_found() -> None:
    """The model may declare it in any call."""
    declaring = [
        ToolCall(CallId("a"), "ask_shop", '{"request": "x", "intent_count": 2}'),
        ToolCall(CallId("b"), "ask_shop", '{"request": "y", "intent_count": 3}'),
    ]

    assert plan_dispatch(a_surface("shop"), declaring, 0, 2).declared == 3


def test_every_failure_has_a_neutral_sentence() -> None:
    """None holds the reason's name, a code, or the word error."""
    assert set(MESSAGE_OF) == set(CallFailure)
    for reason, sentence in MESSAGE_OF.items():
        assert reason not in sentence
        assert "error" not in sentence.lower()
        assert sentence.endswith(".")
