"""Whatever a model calls, in whatever order, and whatever becomes of it: each call is answered exactly once."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, InvalidToolCall, ToolMessage

from clients.langchain.tests.support.scripted_model import NUMBERS, calling, composes, priced
from clients.langchain.tests.support.talking import talking
from subagents_client import Outcome
from subagents_langchain import OrchestratorRules
from tests.support.builders import a_card, with_limits
from tests.support.fake_runner import answers, ends_early, hangs, lies, meets, raises
from tests.support.requirement import requirement

CANARY: Final = "CANARY-19c2"
SLOTS: Final = ("shop", "rewards", "support")
BEHAVIOURS: Final = {
    "answers": answers(),
    "raises": raises(RuntimeError(CANARY)),
    "hangs": hangs(),
    "ends early": ends_early(),
    "lies": lies(),
}
NAMES: Final = st.sampled_from([*(f"ask_{slot}" for slot in SLOTS), "ask_moon", "no_such_tool"])
CALLS: Final = st.lists(st.tuples(NAMES, st.sampled_from(["fit", "unfit", "unreadable"])), min_size=1, max_size=6)


def response(calls: list[tuple[str, str]]) -> AIMessage:
    """Return a response with these calls; the arguments of each are as said."""
    good: list[Any] = []
    bad: list[Any] = []
    for name, kind in calls:
        call_id = f"any-{next(NUMBERS)}"
        if kind == "unreadable":
            bad.append(
                {"name": name, "args": '{"request": ', "id": call_id, "error": None, "type": "invalid_tool_call"}
            )
        else:
            args = {"request": "x"} if kind == "fit" else {"reqest": 1}
            good.append({"name": name, "args": args, "id": call_id})
    return priced(AIMessage("One moment.", tool_calls=good, invalid_tool_calls=bad), "big")


@requirement("PC1-D-17")
@settings(max_examples=40)
@given(
    responses=st.lists(CALLS, min_size=1, max_size=3),
    behaviours=st.fixed_dictionaries({slot: st.sampled_from(sorted(BEHAVIOURS)) for slot in SLOTS}),
    cap=st.integers(1, 4),
)
@example([[("no_such_tool", "unreadable")], [("no_such_tool", "fit")]], dict.fromkeys(SLOTS, "answers"), 1)
def test_every_call_is_answered_exactly_once(
    responses: list[list[tuple[str, str]]], behaviours: dict[str, str], cap: int
) -> None:
    """The model itself refuses every history that a provider would; one dispatch per response with sub-agent calls."""
    asyncio.run(asyncio.wait_for(conversation(responses, behaviours, cap), 20))


async def conversation(responses: list[list[tuple[str, str]]], behaviours: dict[str, str], cap: int) -> None:
    """Carry out one turn with these responses, and check it."""
    cards = [with_limits(a_card(slot), attempt_timeout=timedelta(milliseconds=40)) for slot in SLOTS]
    said = [response(calls) for calls in responses]
    async with talking(*said, composes, cards=cards, cap=cap) as talk:
        for slot, behaviour in behaviours.items():
            talk.sidecar.runner.use(slot, BEHAVIOURS[behaviour])
        answer = await talk.say()

        assert CANARY not in f"{talk.model.shown} {talk.events} {answer}"
    asked = [one for one in said if any(name.startswith("ask_") for name in names_of(one))]
    assert len(answer.results) == len(asked)
    assert not any(result.synthesised for result in answer.results)
    told = [one for one in answer.messages if isinstance(one, ToolMessage)]
    assert sorted(one.tool_call_id for one in told) == sorted(one for message in said for one in ids_of(message))
    for result in answer.results:
        for one in result.outcomes:
            expected = behaviours.get(one.sub_agent_id) == "answers"
            assert one.answered is (expected and one.outcome is Outcome.SUCCEEDED)


def names_of(message: AIMessage) -> list[str]:
    """Return the names of all calls."""
    return [str(one["name"]) for one in [*message.tool_calls, *message.invalid_tool_calls]]


def ids_of(message: AIMessage) -> list[str]:
    """Return the ids of all calls."""
    return [str(one["id"]) for one in [*message.tool_calls, *message.invalid_tool_calls]]


@requirement("PC2-D-3")
@settings(max_examples=15)
@given(order=st.permutations(SLOTS), count=st.integers(1, 3))
def test_the_calls_of_a_response_overlap_in_any_order(order: list[str], count: int) -> None:
    """Each waits for all others: two dispatches, or one after the other, would never end."""
    asyncio.run(asyncio.wait_for(overlapping(order[:count]), 20))


async def overlapping(slots: list[str]) -> None:
    """Let all of them meet."""
    rules = OrchestratorRules(dispatch_timeout=timedelta(seconds=5))
    async with talking(calling(*(f"ask_{slot}" for slot in slots)), composes, rules=rules) as talk:
        for slot in slots:
            talk.sidecar.runner.use(slot, meets(*slots))
        answer = await talk.say()

        assert talk.dispatches == 1
    assert [one.sub_agent_id for one in answer.results[0].outcomes] == slots
    told = [one.content for one in answer.messages if isinstance(one, ToolMessage)]
    assert told == [f"hello from {slot}" for slot in slots]


async def test_an_unreadable_call_takes_nothing_with_it_and_a_response_of_nothing_else_goes_on() -> None:
    """Refused by the sidecar with an outcome of its own; the model sees that and answers."""
    async with talking(
        response([("ask_shop", "fit"), ("ask_rewards", "unreadable")]),
        response([("ask_support", "unreadable")]),
        composes,
    ) as talk:
        answer = await talk.say()

    assert [one.outcome for one in answer.results[0].outcomes] == [Outcome.SUCCEEDED, Outcome.REFUSED]
    assert [one.outcome for one in answer.results[1].outcomes] == [Outcome.REFUSED]
    assert answer.text.startswith("Here is what I found: hello from shop")


@pytest.mark.parametrize("siblings", [(), ("ask_rewards",)])
async def test_a_call_that_langchain_holds_for_unreadable_is_never_run(siblings: tuple[str, ...]) -> None:
    """Its arguments would fit after all, but no other middleware has seen it, so nobody could have objected."""
    message = response([(name, "fit") for name in siblings])
    bad = InvalidToolCall(name="ask_shop", args='{"request": "x"}', id="bad", error="cut off", type="invalid_tool_call")
    message.invalid_tool_calls = [bad]
    async with talking(message, composes) as talk:
        answer = await talk.say()

        assert talk.sidecar.runner.started == [name.removeprefix("ask_") for name in siblings]
    assert [one.outcome for one in answer.results[0].outcomes][-1] is Outcome.REFUSED
