"""Plans, outcomes, logs and lanes as whole values; what a model is told, word for word."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.cap import CapBehaviour, split_at_cap, worst
from sidecar.core.dispatching.frames import CallState, CallStateChanged, DispatchEvent, EventLog, Gap
from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Component, Outcome, Usage, axis_of
from sidecar.core.dispatching.plan import REQUEST_LIMIT, PlannedCall, outcomes_without_run, plan_dispatch
from sidecar.core.dispatching.result_checks import InvalidResult, ResultCollector, ResultLimits, holds_component_data
from sidecar.core.dispatching.routing_record import distinct
from sidecar.core.dispatching.slot_queues import QueuedCall, SlotQueues
from sidecar.core.identifiers import CallId, Slot
from subagents_errors import Axis, CallFailure
from tests.support.builders import a_card, a_surface
from tests.support.requirement import requirement

NOW = datetime(2026, 11, 22, tzinfo=UTC)
CHANGE = CallStateChanged(CallId("c"), CallState.RUNNING)
ANYTHING = {"type": "object", "properties": {}}


def call(tool: str = "ask_shop", arguments: str = '{"request": "oats"}', name: str = "c") -> ToolCall:
    """Return a call."""
    return ToolCall(CallId(name), tool, arguments)


def refused(tool: str, slot: str | None, reason: CallFailure, hint: str) -> CallOutcome:
    """Return the outcome of a refused first call."""
    slot_or_none = None if slot is None else Slot(slot)
    return CallOutcome(CallId("c"), tool, slot_or_none, None, 5, Outcome.REFUSED, reason, hint=hint)


def test_a_planned_call_is_what_model_and_surface_say() -> None:
    """The request, what is handed on to the letter, what the sidecar reads, and both places."""
    surface = a_surface("shop", "rewards")
    written = '{"request": "oats",  "intent_count": 2}'
    plan = plan_dispatch(surface, [call("ask_rewards", name="a"), call(arguments=written)], 5, 2)

    assert plan.run[1] == PlannedCall(
        call=call(arguments=written),
        tool=surface.tools[0],
        place=1,
        step_idx=6,
        request="oats",
        arguments_json=written,
        declared_intents=2,
        prior_context="",
    )
    assert (plan.settled, plan.called, plan.briefed) == ({}, ("rewards", "shop"), ())
    assert (plan.declared, plan.cap) == (2, CapBehaviour.AT)


def test_what_is_meant_for_the_sidecar_alone_is_not_handed_on() -> None:
    """A card that does not declare intent count and summary never sees them; its request is then its arguments."""
    surface = a_surface(cards=[a_card("shop", arguments=ANYTHING)])
    written = '{"x": 1, "prior_context": " before ", "intent_count": 3}'
    (planned,) = plan_dispatch(surface, [call(arguments=written)], 0, 1).run

    assert (planned.arguments_json, planned.request) == ('{"x":1}', '{"x":1}')
    assert (planned.declared_intents, planned.prior_context) == (3, " before ")


def test_only_a_summary_that_says_something_briefs() -> None:
    """Blanks are none."""
    surface = a_surface(cards=[a_card(name, arguments=ANYTHING) for name in ("a", "b", "c")])
    written = [json.dumps({"prior_context": text}) for text in ("order 17", "  ")]
    calls = [call("ask_a", written[0], "1"), call("ask_b", written[1], "2"), call("ask_c", "{}", "3")]
    plan = plan_dispatch(surface, calls, 0, 0)
    assert (plan.briefed, plan.called, plan.declared, plan.run) == (("a",), ("a", "b", "c"), 0, ())


@pytest.mark.parametrize("declared", ["null", "true", '"2"', "2.5"])
def test_an_intent_count_that_is_no_count_declares_nothing(declared: str) -> None:
    """A card may declare the argument with another type."""
    schema = {"type": "object", "properties": {"intent_count": True, "prior_context": True}}
    surface = a_surface(cards=[a_card("shop", arguments=schema)])
    written = f'{{"intent_count": {declared}, "prior_context": 7, "request": 8}}'
    (planned,) = plan_dispatch(surface, [call(arguments=written)], 0, 1).run
    assert type(planned.declared_intents) is int
    assert planned.declared_intents == 0
    assert (planned.prior_context, planned.request) == ("", written)


@pytest.mark.parametrize(("count", "declared"), [(0, 0), (-1, 0), (1, 1)])
def test_an_intent_count_is_one_or_more(count: int, declared: int) -> None:
    """None and less are as if nothing was declared."""
    schema = {"type": "object", "properties": {"intent_count": {"type": "integer"}}}
    surface = a_surface(cards=[a_card("shop", arguments=schema)])
    (planned,) = plan_dispatch(surface, [call(arguments=f'{{"intent_count": {count}}}')], 0, 1).run
    assert planned.declared_intents == declared


def test_a_request_is_kept_to_its_16384th_character() -> None:
    """What the sub-agent is given as arguments is not cut."""
    written = json.dumps({"request": "x" * 20_000})
    (planned,) = plan_dispatch(a_surface("shop"), [call(arguments=written)], 0, 1).run
    assert (planned.request, REQUEST_LIMIT) == ("x" * 16_384, 16_384)
    assert planned.arguments_json == written


def test_a_refused_call_tells_the_model_what_it_can_do() -> None:
    """Which tools there are, or that there are none, or what is wrong with the arguments."""
    surface = a_surface("shop", "rewards")
    nobody, wrong = CallFailure.UNKNOWN_TOOL, CallFailure.ARGUMENTS_INVALID
    known = refused("ask_x", None, nobody, "There are: ask_shop, ask_rewards.")
    assert plan_dispatch(surface, [call("ask_x")], 5, 1).settled == {0: known}
    assert plan_dispatch(a_surface(), [call("ask_x")], 5, 1).settled == {
        0: refused("ask_x", None, nobody, "There are none.")
    }
    plan = plan_dispatch(surface, [call(arguments="[]")], 5, 1)
    assert (plan.declared, plan.run, plan.called) == (0, (), ())
    (outcome,) = plan.settled.values()
    assert outcome == refused("ask_shop", "shop", wrong, outcome.hint)
    assert (outcome.hint[:7], outcome.hint[-1]) == ("Wrong: ", ".")


def test_a_dropped_call_says_how_many_run_at_a_time() -> None:
    """The cap, also where fewer places were free."""
    plan = plan_dispatch(a_surface("shop", cap=3), [call(), call(name="d")], 5, 1)
    over = CallFailure.OVER_CAP
    dropped = CallOutcome(CallId("d"), "ask_shop", Slot("shop"), None, 6, Outcome.DROPPED, over)
    told = "At most 3 run at a time."
    assert plan.settled[1].hint == told
    assert plan.settled == {1: outcomes_without_run(plan_of(), Outcome.DROPPED, over, told)}
    assert outcomes_without_run(plan_of(), Outcome.DROPPED, over) == dropped


def plan_of() -> PlannedCall:
    """Return the second call, as it was planned."""
    return plan_dispatch(a_surface("shop", cap=3), [call(), call(name="d")], 5, 2).run[1]


def test_places_are_never_negative_and_no_place_is_one() -> None:
    """With none, all are dropped."""
    with pytest.raises(ValueError, match=r"^places must not be negative, was -1$"):
        split_at_cap([1], -1)
    assert split_at_cap([1, 2], 0) == ([], [1, 2])


def test_the_most_notable_of_several_responses_is_told() -> None:
    """Over before at, at before within."""
    assert worst([CapBehaviour.WITHIN, CapBehaviour.AT]) is CapBehaviour.AT
    assert worst([CapBehaviour.AT, CapBehaviour.OVER]) is CapBehaviour.OVER
    assert worst([CapBehaviour.WITHIN]) is CapBehaviour.WITHIN


def test_each_slot_is_counted_once_in_order() -> None:
    """Of its first appearance."""
    assert distinct([Slot("b"), Slot("a"), Slot("b")]) == ("b", "a")


@pytest.mark.parametrize("outcome", Outcome)
def test_axis_and_answer_of_each_outcome(outcome: Outcome) -> None:
    """Data if degraded, execution if failed; succeeded and degraded are answers."""
    axes = {Outcome.DEGRADED: Axis.DATA, Outcome.FAILED: Axis.EXECUTION}
    made = CallOutcome(CallId("c"), "t", None, None, 0, outcome)
    assert made.axis == axis_of(outcome) == axes.get(outcome, Axis.NONE)
    assert made.answered == (outcome in {Outcome.SUCCEEDED, Outcome.DEGRADED})


def test_what_a_model_is_told_of_an_outcome() -> None:
    """Nothing if there is no reason; else its sentence, and a hint if there is one."""

    def told(reason: CallFailure | None, hint: str = "") -> str:
        return CallOutcome(CallId("c"), "t", None, None, 0, Outcome.FAILED, reason, hint=hint).message

    sentence = "Not asked: there is no such assistant in this conversation turn."
    assert told(None, "There are none.") == ""
    assert told(CallFailure.UNKNOWN_TOOL) == sentence
    assert told(CallFailure.UNKNOWN_TOOL, "There are none.") == f"{sentence} There are none."


@pytest.mark.parametrize(
    ("answer", "empty"),
    [
        (Answer(), True),
        (Answer(" \n"), True),
        (Answer("x"), False),
        (Answer(components=(Component("a", "{}", "{}"),)), False),
        (Answer(data_unavailable=True), False),
    ],
)
def test_an_answer_is_empty_only_if_it_says_nothing_at_all(answer: Answer, empty: bool) -> None:
    """Each of the three is something."""
    assert answer.is_empty == empty
    assert Usage(2, 3, 1).total == 5
    assert Usage(2, 3) + Usage(4, 5) == Usage(6, 8)
    assert Usage(2, 3) + Usage(4, 5, 0) == Usage(4, 5, 0) + Usage(2, 3) == Usage(6, 8, 0)
    assert Usage(2, 3, 1) + Usage(4, 5, 4) == Usage(6, 8, 5)


def test_a_log_that_begins_after_others_declares_what_came_before_missing() -> None:
    """Also while it is empty; what a listener has seen already is not told again."""
    log = EventLog(8)
    log.begin_after(4)
    later = NOW + timedelta(seconds=1)
    assert log.newest == 4
    assert log.after(1, later) == [DispatchEvent(4, later, Gap(2, 4))]
    assert log.after(4, later) == []
    log.add(NOW, CHANGE)
    assert log.after(0, later) == [DispatchEvent(4, later, Gap(1, 4)), DispatchEvent(5, NOW, CHANGE)]
    assert log.after(3, later) == [DispatchEvent(4, later, Gap(4, 4)), DispatchEvent(5, NOW, CHANGE)]
    assert log.after(4, later) == [DispatchEvent(5, NOW, CHANGE)]
    assert log.after(9, later) == []


def waiting(key: str, *boundaries: str, parallel: int = 9, group: str = "d1") -> QueuedCall:
    """Return a call that wants to run."""
    return QueuedCall(key, group, parallel, boundaries)


@requirement("SX-17")
@pytest.mark.parametrize(
    ("wanted", "runs"),
    [
        (("free",), True),
        (("lent",), True),
        (("lent", "awaited"), False),
        (("held",), False),
        (("awaited",), False),
        (("lent and awaited",), True),
        (("beside",), False),
    ],
)
def test_a_delegation_runs_at_once_or_never(wanted: tuple[str, ...], runs: bool) -> None:
    """It may have what its lenders own, even if others wait for that; nothing that others hold or wait for."""
    lanes = SlotQueues()
    lanes.enter([waiting("parent", "lent", "lent and awaited"), waiting("other", "held")])
    assert lanes.start_ready() == ("parent", "other")
    lanes.enter([waiting("late", "awaited", "lent and awaited")])
    assert lanes.start_beside(waiting("first", "beside"), {"parent"})

    assert lanes.start_beside(waiting("child", *wanted), {"parent"}) is runs
    assert lanes.occupied == 3


def test_a_delegation_holds_its_lane_until_it_leaves_and_takes_no_place() -> None:
    """A call that shares its lane waits; a delegation below it may borrow the lane."""
    lanes = SlotQueues()
    assert lanes.start_beside(waiting("child", "a"), ())
    lanes.enter([waiting("late", "a")])
    assert (lanes.occupied, lanes.start_ready()) == (1, ())
    assert lanes.start_beside(waiting("below", "a"), {"child"})
    lanes.leave("below")
    assert lanes.start_ready() == ()
    lanes.leave("child")
    assert lanes.start_ready() == ("late",)
    assert (lanes.start_ready(), lanes.occupied) == ((), 1)


def test_unknown_keys_leave_nothing_and_only_the_named_call_gives_up() -> None:
    """The order of the others stays."""
    lanes = SlotQueues()
    lanes.enter([waiting("a", "x"), waiting("b", "x"), waiting("c", "y")])
    lanes.leave("nobody")
    lanes.leave("b")
    assert (lanes.occupied, lanes.start_ready()) == (2, ("a", "c"))


def test_parallel_places_are_of_each_dispatch() -> None:
    """One place each; the second of the first dispatch waits for its first, and running ones count."""
    lanes = SlotQueues()
    lanes.enter([waiting("a1", "1", parallel=1), waiting("a2", "2", parallel=1)])
    lanes.enter([waiting("b1", "3", parallel=1, group="d2")])
    assert lanes.start_ready() == ("a1", "b1")
    assert lanes.start_ready() == ()
    lanes.leave("b1")
    assert lanes.start_ready() == ()
    lanes.leave("a1")
    assert lanes.start_ready() == ("a2",)


DEFINITION = a_card("shop", components={"card": {"type": "object"}, "list": {"type": "array"}}).definition
CARD = Component("card", "[]", "{}")


def collector(**limits: Any) -> ResultCollector:
    """Return an empty collector."""
    return ResultCollector(DEFINITION, ResultLimits(**limits))


def broken(result: ResultCollector, *parts: str | Component) -> tuple[CallFailure, str]:
    """Return why the last of these parts is refused, after the others were taken."""
    for part in parts[:-1]:
        result.add_narration(part) if isinstance(part, str) else result.add_component(part)
    with pytest.raises(InvalidResult) as refused:
        result.add_narration(parts[-1]) if isinstance(parts[-1], str) else result.add_component(parts[-1])
    assert str(refused.value) == refused.value.detail
    return refused.value.reason, refused.value.detail


LARGE, INVALID = CallFailure.RESULT_TOO_LARGE, CallFailure.RESULT_INVALID


@requirement("SX-53")
@pytest.mark.parametrize(
    ("limits", "parts", "why"),
    [
        ({"narration": 5}, ("123", "45", "6"), (LARGE, "narration over 5 characters")),
        ({"components": 2}, (CARD, CARD, CARD), (LARGE, "more than 2 components")),
        ({"component": 2}, (CARD, Component("card", "[1]", "{}")), (LARGE, "component 'card' is too large")),
        ({"component": 2}, (CARD, Component("list", "[]", "[1]")), (LARGE, "component 'list' is too large")),
        ({"total": 8}, (CARD, "x"), (LARGE, "over 8 bytes in all")),
        ({"total": 8}, ("é", "éé", "12", "x"), (LARGE, "over 8 bytes in all")),
        ({"total": 8}, ("x", CARD), (LARGE, "over 8 bytes in all")),
        ({"total": 3}, ("aé", "x"), (LARGE, "over 3 bytes in all")),
        ({}, ("\ud800é",), (INVALID, "a text with half a surrogate pair is not Unicode")),
        ({}, (Component("x", "{}", "{}"),), (INVALID, "the card declares no component 'x'")),
        ({}, (Component("card", "{}", "{"),), (INVALID, "component 'card' is not JSON")),
        ({}, (Component("card", "{", "{}"),), (INVALID, "component 'card' is not JSON")),
        ({}, (Component("card", "{}", "[]"),), (INVALID, "component 'card' does not fit its schema")),
        ({}, (Component("list", "{}", "{}"),), (INVALID, "component 'list' does not fit its schema")),
    ],
)
def test_a_result_is_refused_one_beyond_its_bounds(
    limits: dict[str, int], parts: tuple[str | Component, ...], why: tuple[CallFailure, str]
) -> None:
    """Exactly as much as allowed is taken; each text counts, in characters or in UTF-8 bytes."""
    assert broken(collector(**limits), *parts) == why


def test_events_are_bounded() -> None:
    """Whoever reads them counts; how many are fine, and what is said of more, is known here."""
    result = collector(events=2)
    assert result.most_events == 2
    with pytest.raises(InvalidResult) as refused:
        result.refuse_flood()
    assert (refused.value.reason, refused.value.detail) == (LARGE, "more than 2 events")


def test_an_answer_is_the_whole_and_a_partial_one_says_that_something_is_missing() -> None:
    """Evidence is what is there, and claims nothing."""
    result = collector()
    for part in ("Two ", CARD, "offers.", Component("list", "{}", "[]")):
        result.add_narration(part) if isinstance(part, str) else result.add_component(part)
    whole = Answer("Two offers.", (CARD, Component("list", "{}", "[]")))

    assert result.answer(data_unavailable=False) == whole == result.evidence()
    assert result.answer(data_unavailable=True) == result.partial()
    assert result.partial().data_unavailable
    assert collector().usage is None


def test_component_data_in_the_words_is_refused_and_is_no_evidence() -> None:
    """The components stay."""
    result = collector()
    result.add_component(CARD)
    result.add_narration("```json {}")
    with pytest.raises(InvalidResult) as refused:
        result.answer(data_unavailable=False)
    assert (refused.value.reason, refused.value.detail) == (INVALID, "the narration holds inline component JSON")
    assert result.evidence() == Answer("", (CARD,))


@pytest.mark.parametrize(
    ("narration", "holds"),
    [
        ("<component>", True),
        ("<components>", False),
        ("a <COMPONENT b", True),
        ("``` JSON", True),
        ("```jsonish", False),
        ("``` text", False),
        ("json", False),
        ('\n{"a": 1} ', True),
        ("[1]", True),
        ("[1", False),
        ("1]", False),
        ("{note}", False),
        ("[1}", False),
        ("", False),
    ],
)
def test_what_counts_as_component_data(narration: str, holds: bool) -> None:
    """A legacy marker, a JSON block, or nothing but one JSON object or array."""
    assert holds_component_data(narration) is holds


def test_the_bounds_that_hold_if_nobody_sets_any() -> None:
    """256 KiB of words, as much a component, 32 of them, 1 MiB in all, a hundred thousand events."""
    bounds: dict[str, Any] = {"narration": 262_144, "component": 262_144, "components": 32, "total": 1_048_576}
    assert ResultLimits() == ResultLimits(**bounds, events=100_000, silence=None)
