"""Sidecars that are killed, restarted or away, and turns that were cut off: no tool call is ever left unanswered."""

import asyncio
import signal
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from clients.langchain.tests.support.scripted_model import Messages, ScriptedModel, Step, calling, composes, says
from clients.langchain.tests.support.talking import talking
from clients.langchain.tests.support.verticals import Verticals
from subagents_client import ClientTimeouts, Outcome, SidecarClient, TurnRequest
from subagents_errors import DeadlineExceeded, DependencyUnavailable
from subagents_langchain import ENGLISH, Answer, Orchestrator, OrchestratorRules, validate_history
from tests.support.fake_runner import hangs
from tests.support.sidecar_process import place, serving

QUICK = ClientTimeouts(unreachable_after=timedelta(milliseconds=300), unary=timedelta(seconds=1))


async def turn_with(client: SidecarClient, *steps: Step, history: tuple[AnyMessage, ...] = ()) -> Answer:
    """Carry out one turn; the model refuses what a provider refuses."""
    turn = TurnRequest(principal="user-1", episode_id="episode-1")
    answer = await Orchestrator(client, ScriptedModel(steps=list(steps))).answer(turn, [*history, HumanMessage("?")])
    validate_history(answer.messages)
    return answer


@pytest.mark.system
@pytest.mark.seconds(60)
async def test_a_sidecar_that_restarts_in_the_middle_of_a_turn_leaves_no_call_unanswered() -> None:
    """Killed while a sub-agent runs: the turn is composed all the same, and the conversation goes on."""
    verticals = Verticals()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(place())
        await stack.enter_async_context(verticals.serving(folder))
        first = await stack.enter_async_context(serving(folder))
        client = await stack.enter_async_context(first.client())
        asking = asyncio.ensure_future(turn_with(client, calling("ask_shop", "ask_rewards"), composes))
        await verticals.running.wait()
        first.signal(signal.SIGKILL)
        await first.ended()
        second = await stack.enter_async_context(serving(folder))
        answer = await asking
        verticals.let_go.set()
        again = await turn_with(
            await stack.enter_async_context(second.client()),
            calling("ask_rewards"),
            composes,
            history=tuple(answer.messages),
        )

    assert answer.results[0].synthesised
    assert answer.full_text.endswith(ENGLISH.nothing)
    assert again.text == "Here is what I found: hello from rewards"
    assert again.end is not None


@pytest.mark.system
@pytest.mark.seconds(60)
async def test_a_sidecar_that_is_gone_between_two_responses_leaves_no_call_unanswered() -> None:
    """The first response was answered; for the second nobody is there any more. The answer does not get lost."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(place())
        await stack.enter_async_context(Verticals().serving(folder))
        sidecar = await stack.enter_async_context(serving(folder))
        client = await stack.enter_async_context(
            SidecarClient.connect(sidecar.dispatch_target, boot_secret=sidecar.boot_secret, timeouts=QUICK)
        )

        async def after_its_end(messages: Messages) -> object:
            sidecar.signal(signal.SIGKILL)
            await sidecar.ended()
            return calling("ask_shop")

        answer = await turn_with(client, calling("ask_rewards"), after_its_end, composes)

    assert [result.synthesised for result in answer.results] == [False, True]
    assert answer.full_text == f"Here is what I found: hello from rewards\n\n{ENGLISH.answer}"
    assert answer.end is None


async def test_a_turn_that_cannot_be_bound_goes_on_without_sub_agents(tmp_path: Path) -> None:
    """Nobody listens: the model is told, is offered nothing, and what it calls in spite of it is answered."""
    model = ScriptedModel(steps=[calling("ask_shop"), says("Hm.")])
    timeouts = ClientTimeouts(bind=timedelta(milliseconds=300), unreachable_after=timedelta(milliseconds=300))
    async with SidecarClient.connect(f"unix:{tmp_path}/nobody.sock", boot_secret="x", timeouts=timeouts) as client:
        turn = TurnRequest(principal="user-1", episode_id="episode-1")
        answer = await Orchestrator(client, model).answer(turn, [HumanMessage("?")])

    validate_history(answer.messages)
    assert isinstance(answer.unbound_because, DependencyUnavailable | DeadlineExceeded)
    assert answer.full_text == f"Hm.\n\n{ENGLISH.nothing}"
    assert model.offered == [[], []]
    assert "cannot be reached" in model.prompts[0]
    assert (answer.results, answer.end) == ((), None)


async def test_a_dispatch_that_runs_out_of_time_is_answered_in_full() -> None:
    """One hangs beyond the orchestrator's own limit; its sibling's answer is there."""
    rules = OrchestratorRules(dispatch_timeout=timedelta(seconds=2))
    async with talking(calling("ask_shop", "ask_rewards"), composes, rules=rules) as talk:
        talk.sidecar.runner.use("shop", hangs())
        answer = await talk.say()

    assert [one.outcome for one in answer.results[0].outcomes] == [Outcome.FAILED, Outcome.SUCCEEDED]
    assert answer.full_text == f"Here is what I found: hello from rewards\n\n{ENGLISH.answer}"


async def test_a_thread_that_was_cut_off_is_mended_before_its_next_turn() -> None:
    """A checkpoint holds the model's response without answers, since the turn was cancelled while sub-agents ran."""
    script = [calling("ask_shop"), says("Welcome back.")]
    thread = {"configurable": {"thread_id": "episode-1"}}
    turn = TurnRequest(principal="user-1", episode_id="episode-1")
    async with talking(*script, more={"checkpointer": InMemorySaver()}) as talk:
        talk.sidecar.runner.use("shop", hangs())
        running = asyncio.ensure_future(talk.orchestrator.answer(turn, [HumanMessage("?")], config=thread))
        await talk.sidecar.runner.until_started("shop")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        before = (await talk.orchestrator.graph.aget_state(thread)).values["messages"]
        answer = await talk.orchestrator.answer(turn, [HumanMessage("Hello?")], config=thread)

    assert [one.type for one in before] == ["human", "ai"]
    validate_history(answer.messages)
    assert [one.type for one in answer.messages] == ["human", "ai", "tool", "human", "ai"]
