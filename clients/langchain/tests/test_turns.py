"""Turns in which everything works: routing, fan-out, composition, several responses, own tools, costs."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.errors import GraphRecursionError
from msgspec.structs import replace
from typing_extensions import override

from clients.langchain.tests.support.scripted_model import Messages, ScriptedModel, calling, composes, says
from clients.langchain.tests.support.talking import routed, talking
from clients.python.tests.support.fake_sidecar_host import FakeSidecar, scene
from subagents_client import Outcome, TurnRequest
from subagents_langchain import ExtraCall, Orchestrator, OrchestratorRules, Price, Purpose
from tests.support.builders import a_card, a_catalogue
from tests.support.data_tools import a_card_with_tools
from tests.support.fake_runner import answers, meets, narrates
from tests.support.records import contract_of, opened_children, settled_calls
from tests.support.requirement import requirement


@requirement("PC1-T-7", "PC2-T-8", "PC2-AC-2a", "PC2-AC-2b")
async def test_a_turn_with_one_intent_is_routed_answered_and_composed() -> None:
    """One tool call, one sub-agent, one tool result, one composition, whose words are the user's answer."""
    async with talking(calling("ask_shop"), says("Coffee is on offer this week.")) as talk:
        talk.sidecar.runner.use("shop", answers("Coffee at 20 percent off."))
        answer = await talk.say("What is on offer?")

        assert talk.sidecar.runner.started == ["shop"]
        assert talk.dispatches == 1
    assert answer.text == "Coffee is on offer this week."
    kinds = [type(message) for message in answer.messages]
    assert kinds == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert answer.messages[2].content == "Coffee at 20 percent off."
    assert routed(answer) == [("shop", "succeeded")]


@requirement("PC1-AC-3", "PC2-FR-4a", "PC2-FR-4c")
async def test_the_answer_is_the_orchestrators_even_where_it_repeats_a_sub_agent() -> None:
    """Text passed on verbatim goes through composition too: the model is called again, its message is the answer."""
    async with talking(calling("ask_shop"), lambda messages: says(str(messages[-1].content))) as talk:
        talk.sidecar.runner.use("shop", answers("Word for word."))
        answer = await talk.say()

        assert len(talk.model.shown) == 2
        assert str(talk.model.shown[1][-1].content) == "Word for word."
    assert answer.text == "Word for word."
    assert isinstance(answer.messages[-1], AIMessage)
    assert answer.end is not None
    assert [child.close_reason for child in answer.end.children] == ["integrated"]


@requirement("PC2-FR-3")
async def test_a_turn_with_one_intent_takes_its_six_steps_in_order() -> None:
    """Call, definition, instance with the turn's context, work, result, composition: each finds those before done."""
    steps: list[str] = []

    def emits(messages: Messages) -> AIMessage:
        assert (talk.sidecar.runner.started, opened_children(talk.sidecar)) == ([], [])
        steps.append("called")
        return calling("ask_shop")

    def begins(request: Any) -> None:
        (opened,) = opened_children(talk.sidecar)
        contract = contract_of(talk.sidecar, opened.child_id)
        assert (opened.slot, contract["definition_digest"]) == ("shop", request.card.digest)
        steps.append("resolved")
        assert (request.child_id, request.context.principal) == (opened.child_id, "user-1")
        assert (request.context.episode_id, len(talk.model.shown)) == ("episode-1", 1)
        steps.append("instantiated")

    def composes_of(messages: Messages) -> AIMessage:
        assert [each.outcome.outcome for each in settled_calls(talk.sidecar)] == ["succeeded"]
        assert (type(messages[-1]), messages[-1].content) == (ToolMessage, "Coffee.")
        steps.append("returned")
        return says("There is coffee.")

    async with talking(emits, composes_of) as talk:
        talk.sidecar.runner.use("shop", narrates("Coffee.", before=begins, after=lambda: steps.append("worked")))
        answer = await talk.say("What is on offer?")

    assert steps == ["called", "resolved", "instantiated", "worked", "returned"]
    assert answer.text == "There is coffee."
    assert talk.sidecar.runner.started == ["shop"]


@requirement("PC1-T-8", "PC2-T-9", "PC2-AC-3", "PC1-FR-3d")
@pytest.mark.parametrize("count", [2, 3])
async def test_calls_of_one_response_run_at_the_same_time_in_one_dispatch(count: int) -> None:
    """Each sub-agent answers only once all others run as well; the answer draws on all of them."""
    slots = ["shop", "rewards", "support"][:count]
    async with talking(calling(*(f"ask_{slot}" for slot in slots)), composes) as talk:
        for slot in slots:
            talk.sidecar.runner.use(slot, meets(*(other for other in slots if other != slot)))
        answer = await talk.say()

        assert talk.dispatches == 1
    assert all(f"hello from {slot}" in answer.text for slot in slots)
    assert answer.end is not None
    calls = answer.end.routing_decision.calls
    starts, ends = [one.started_at for one in calls], [one.settled_at for one in calls]
    assert max(one for one in starts if one) < min(one for one in ends if one)


@requirement("PC1-T-6")
@pytest.mark.parametrize("slots", [["shop"], ["rewards"], ["support"], ["shop", "support"], ["rewards", "shop"]])
async def test_every_vertical_is_reached_alone_and_together_with_others(slots: list[str]) -> None:
    """What the model calls is what runs, in the order in which it called."""
    async with talking(calling(*(f"ask_{slot}" for slot in slots), intents=len(slots)), composes) as talk:
        answer = await talk.say()

    assert routed(answer) == [(slot, "succeeded") for slot in slots]
    assert not talk.noted
    assert answer.results[0].intents.declared == len(slots)


@requirement("PC1-D-13")
async def test_a_preamble_is_said_before_the_sub_agents_answer() -> None:
    """The model's own words if it has any, else the configured ones; the history keeps what the model said."""
    async with talking(calling("ask_shop", text="Let me see."), composes, calling("ask_shop"), composes) as talk:
        first = await talk.say()
        await talk.say()

    assert str(first.messages[1].text) == "Let me see."
    assert talk.preambles == ["Let me see.", "One moment, I am looking that up."]


async def test_small_talk_needs_no_dispatch_and_is_on_record_all_the_same() -> None:
    """No preamble, no extra call, and a routing decision."""
    async with talking(says("You are welcome!")) as talk:
        answer = await talk.say("Thanks!")

        assert talk.dispatches == 0
    assert answer.text == "You are welcome!"
    assert (talk.events, answer.extra_calls, routed(answer)) == ([], (), [])


async def test_several_responses_with_calls_are_several_dispatches_of_one_turn() -> None:
    """What the first brought is there when the model calls for more; at the limit nothing more is offered."""
    async with talking(calling("ask_shop"), calling("ask_rewards"), composes, max_dispatches=2) as talk:
        answer = await talk.say()

        assert talk.dispatches == 2
        assert [len(tools) for tools in talk.model.offered] == [3, 3, 0]
    assert [len(result.outcomes) for result in answer.results] == [1, 1]
    assert routed(answer) == [("shop", "succeeded"), ("rewards", "succeeded")]
    assert answer.text == "Here is what I found: hello from shop; hello from rewards"


async def test_a_call_beyond_the_most_dispatches_is_answered_though_nothing_runs() -> None:
    """The model calls although nothing was offered to it."""
    async with talking(calling("ask_shop"), calling("ask_rewards"), says("Sorry."), max_dispatches=1) as talk:
        answer = await talk.say()

        assert talk.sidecar.runner.started == ["shop"]
    assert answer.results[1].outcomes[0].outcome is Outcome.FAILED


@tool
async def llm_feedback(note: str) -> str:
    """Note what was odd."""
    return f"noted: {note}"


@tool
async def not_on_the_card() -> str:
    """Never shown."""
    return "?"


def a_catalogue_with_own_tools(*names: str) -> Any:
    """Return shop and an orchestrator that names tools of its own."""
    plain = a_catalogue(a_card("shop"))
    listing = plain.cards["concierge"].definition
    concierge = a_card_with_tools("concierge", *names, sub_agents=listing.sub_agents, role=listing.role)
    return replace(plain, cards={**plain.cards, concierge.definition.id: concierge})


@requirement("PC1-D-10", "PC2-D-5")
async def test_the_orchestrators_own_tools_run_beside_sub_agents() -> None:
    """Those that the card names are shown and run here; the sub-agent of the same response runs behind the sidecar."""
    both = calling("llm_feedback", "ask_shop")
    both.tool_calls[0]["args"] = {"note": "odd"}
    own = {"tools": [llm_feedback, not_on_the_card]}
    async with talking(both, composes, more=own, catalogue=a_catalogue_with_own_tools("llm_feedback")) as talk:
        answer = await talk.say()

        assert talk.model.tools_offered(0) == ["llm_feedback", "ask_shop"]
        assert talk.sidecar.runner.started == ["shop"]
    assert [one.content for one in answer.messages if isinstance(one, ToolMessage)] == ["noted: odd", "hello from shop"]


@tool
async def fails() -> str:
    """Fail."""
    raise RuntimeError("CANARY")


async def test_an_own_tool_that_fails_takes_nothing_with_it() -> None:
    """Its call is answered in neutral words, its sibling's result is there."""
    both = calling("fails", "ask_shop")
    both.tool_calls[0]["args"] = {}
    async with talking(both, composes, more={"tools": [fails]}, catalogue=a_catalogue_with_own_tools("fails")) as talk:
        answer = await talk.say()

    assert "hello from shop" in answer.text
    assert "CANARY" not in str(answer)


@requirement("PC1-NFR-7a", "PC1-NFR-7b")
async def test_extra_calls_are_counted_with_their_cost_and_only_where_they_happen() -> None:
    """The routing call is none; composing is one; small talk has none."""
    heard: list[ExtraCall] = []
    rules = OrchestratorRules(prices={"big": Price(Decimal(2), Decimal(8))}, on_extra_call=heard.append)
    dated = says("Done.", model="big-2026-03")
    async with talking(calling("ask_shop"), dated, says("Hi."), says("Hi.", model="other"), rules=rules) as talk:
        answer = await talk.say()
        small_talk = await talk.say()

    assert answer.extra_calls == (ExtraCall(Purpose.COMPOSITION, "big-2026-03", 1000, 100, Decimal("0.0028")),)
    assert small_talk.extra_calls == ()
    assert heard == list(answer.extra_calls)


@requirement("PC1-FR-10e", "PC1-FR-10f", "PC1-D-26", "PC1-D-27")
async def test_later_turns_carry_narration_only_and_keep_what_chains_responses() -> None:
    """No tool call or tool message of an earlier turn; the answer's metadata, by which a provider chains, is intact."""
    chained = says("First.")
    chained.response_metadata["id"] = "resp_1"
    async with talking(calling("ask_shop"), chained, says("Second.")) as talk:
        await talk.say("One?")
        await talk.say("Two?")
        shown = talk.model.shown[-1][1:]

    assert [(type(one), one.text) for one in shown] == [
        (HumanMessage, "One?"),
        (AIMessage, "First."),
        (HumanMessage, "Two?"),
    ]
    assert shown[1].response_metadata["id"] == "resp_1"


@requirement("PC2-T-14", "PC2-AC-9", "PC1-FR-13b", "PC1-D-15")
async def test_progress_reaches_the_user_as_words_through_the_custom_stream() -> None:
    """Made of typed events, in the user's language, in order, before the answer; unknown types are never shown."""
    async with talking(calling("ask_shop"), composes) as talk:
        talk.sidecar.runner.use("shop", answers(statuses=["searching_offers", "I am thinking", "thinking_aloud"]))
        await talk.say(locale="en-US")

    assert talk.lines == ["Looking for offers…"]


def asks_for_what_was_said(messages: Messages) -> AIMessage:
    """Call the sub-agent that the user names."""
    return calling(f"ask_{messages[-1].text}") if isinstance(messages[-1], HumanMessage) else composes(messages)


async def test_turns_of_several_users_at_the_same_time_do_not_mix() -> None:
    """Three turns on one graph, each held until all three run; every one gets its own result and nobody else's."""
    slots = ("shop", "rewards", "support")
    async with talking(*[asks_for_what_was_said] * 6) as talk:
        for slot in slots:
            talk.sidecar.runner.use(slot, meets(*slots))
        turns = [TurnRequest(principal=f"user-{slot}", episode_id=f"episode-{slot}") for slot in slots]
        found = await asyncio.gather(
            *(talk.orchestrator.answer(turn, [HumanMessage(slot)]) for turn, slot in zip(turns, slots, strict=True))
        )

        principals = {
            request.card.definition.slot: request.context.principal for request in talk.sidecar.runner.requests
        }
    assert [answer.text for answer in found] == [f"Here is what I found: hello from {slot}" for slot in slots]
    assert [routed(answer) for answer in found] == [[(slot, "succeeded")] for slot in slots]
    assert principals == {slot: f"user-{slot}" for slot in slots}


async def test_a_model_that_calls_without_end_is_stopped_and_its_turn_is_ended() -> None:
    """It never composes: an error after so many steps, not a hang."""
    rules = OrchestratorRules(most_steps=20)
    async with talking(*(calling("ask_shop") for _ in range(20)), rules=rules) as talk:
        with pytest.raises(GraphRecursionError):
            await talk.say()

        assert len(talk.sidecar.recorder.of("turn_routed")) == 1


class SidecarWithSchemas(FakeSidecar):
    """Keeps what it receives; its tools take anything."""

    @override
    async def BindTurn(self, request: Any, context: Any) -> Any:
        answer = await super().BindTurn(request, context)
        for one in answer.surface.sub_agent_tools:
            one.arguments_schema_json = '{"type": "object", "properties": {}}'
        return answer


async def test_a_dispatch_carries_the_users_words_and_the_intents_that_the_model_declared() -> None:
    """As the sidecar receives it; the largest count of the calls."""
    model = ScriptedModel(steps=[calling("ask_shop", "ask_rewards", intents=2), says("Done.")])
    turn = TurnRequest(principal="user-1", episode_id="episode-1")
    async with scene(SidecarWithSchemas()) as here:
        await Orchestrator(here.client, model).answer(turn, [HumanMessage("Offers and points?")])
        sent = next(request for method, request in here.sidecar.received if method == "Dispatch")

    assert (sent.declared_intent_count, sent.task_prompt) == (2, "Offers and points?")
