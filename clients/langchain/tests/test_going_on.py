"""Turns that stop before their end and go on in another run: interrupts, cancels, turns that are over meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import override

from clients.langchain.tests.support.agents import (
    STRICT,
    THREAD,
    TURN,
    agent,
    asked,
    asks_first,
    decides,
    sqlite_saver,
)
from clients.langchain.tests.support.scripted_model import calling, composes, says
from clients.langchain.tests.support.talking import Talk, routed, talking
from subagents_langchain import ENGLISH, Answer, ForeignTurn, Orchestrator, validate_history
from tests.support.fake_runner import hangs, raises, waits_for
from tests.support.requirement import requirement

APPROVE: Final[dict[str, Any]] = {"type": "approve"}

Saver = BaseCheckpointSaver[Any]
Opened = Callable[[], AbstractAsyncContextManager[Saver]]


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Open the checkpoints, as a new process would: a file anew; what is in memory is kept by the test."""
    kept = InMemorySaver(serde=STRICT)
    return (lambda: nullcontext(kept)) if request.param == "memory" else (lambda: sqlite_saver(tmp_path))


async def kept_turn(orchestrator: Orchestrator) -> Any:
    """Return what the graph's state keeps of the turn."""
    return (await orchestrator.graph.aget_state(THREAD)).values["sidecar_turn"]


async def cancelled_in_mid_dispatch(talk: Talk, saver: Saver, *slots: str) -> None:
    """Cancel the task of an agent while these sub-agents run."""
    await cancelled_once_started(talk, asked(agent(talk, checkpointer=saver)), *slots)


async def cancelled_once_started(talk: Talk, run: Coroutine[Any, Any, Answer], *slots: str) -> None:
    """Cancel a run while these sub-agents run."""
    running = asyncio.ensure_future(run)
    await talk.sidecar.runner.until_started(*slots)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def ended_meanwhile(talk: Talk, turn_id: str) -> None:
    """End a turn behind the agent's back, as the sidecar does when it was open for too long."""
    turn = await talk.client.bind_turn(replace(TURN, turn_id=turn_id))
    await turn.end()


def turns_routed(talk: Talk) -> list[str]:
    """Return the ids of the turns that have ended."""
    return [record.turn_id for (record,) in talk.sidecar.recorder.of("turn_routed")]


@requirement("PC2-FR-15a")
async def test_an_interrupt_is_reported_and_the_same_turn_goes_on_with_its_answer(opened: Opened) -> None:
    """Asked by one agent, answered at another one with the same checkpoints; the turn is ended once, at its end."""
    async with talking(calling("ask_shop"), composes) as talk:
        async with opened() as saver:
            first = agent(talk, asks_first("ask_shop"), checkpointer=saver)
            waiting = await asked(first)
            kept = await kept_turn(first)

            assert (turns_routed(talk), waiting.end) == ([], None)
        async with opened() as saver:
            answer = await asked(agent(talk, asks_first("ask_shop"), checkpointer=saver), decides(APPROVE))

        assert turns_routed(talk) == [kept["turn_id"]]
    (interrupt,) = waiting.interrupts
    assert [one["name"] for one in interrupt.value["action_requests"]] == ["ask_shop"]
    assert (answer.text, answer.interrupts) == ("Here is what I found: hello from shop", ())
    assert routed(answer) == [("shop", "succeeded")]


class Hesitates(InMemorySaver):
    """Gives a sub-agent the chance to begin before a response is kept."""

    def __init__(self, talk: Talk) -> None:
        super().__init__(serde=STRICT)
        self._talk = talk
        self.too_late = False

    @override
    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if isinstance(checkpoint["channel_values"].get("messages", [None])[-1], AIMessage):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._talk.sidecar.runner.until_started("shop")
                    self.too_late = True
        return await super().aput(config, checkpoint, metadata, new_versions)


async def test_a_response_is_kept_before_its_calls_are_sent() -> None:
    """Else a kill in between would leave a dispatch that no later run finds."""
    async with talking(calling("ask_shop"), says("Done.")) as talk:
        saver = Hesitates(talk)
        talk.sidecar.runner.use("shop", hangs())
        await cancelled_in_mid_dispatch(talk, saver, "shop")

    assert not saver.too_late


@requirement("PC2-FR-8b", "PC1-FR-5b")
async def test_a_failure_from_before_an_interrupt_is_acknowledged_after_it(opened: Opened) -> None:
    """The outcome comes out of a checkpoint that rebuilds no class; the composing model and the user are told."""
    async with talking(calling("ask_shop"), calling("ask_rewards"), composes) as talk:
        talk.sidecar.runner.use("shop", raises(RuntimeError("CANARY")))
        async with opened() as saver:
            await asked(agent(talk, asks_first("ask_rewards"), checkpointer=saver))
        async with opened() as saver:
            answer = await asked(agent(talk, asks_first("ask_rewards"), checkpointer=saver), decides(APPROVE))

        assert "1. ask_shop('about ask_shop'): there is no answer right now" in talk.model.prompts[-1]
    assert answer.full_text == f"Here is what I found: hello from rewards\n\n{ENGLISH.answer}"
    assert "CANARY" not in str(answer)


async def test_an_agent_whose_task_is_cancelled_in_mid_dispatch_leaves_it_to_the_next_one(opened: Opened) -> None:
    """Cancelled twice while the sub-agent runs; the third agent gets the outcome. It was asked once."""
    go = asyncio.Event()
    async with talking(calling("ask_shop", "ask_rewards"), composes) as talk:
        talk.sidecar.runner.use("shop", waits_for(go))
        async with opened() as saver:
            await cancelled_in_mid_dispatch(talk, saver, "shop", "rewards")
        async with opened() as saver:
            second = agent(talk, checkpointer=saver)
            running = asyncio.ensure_future(asked(second, None))
            kept = await kept_turn(second)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        go.set()
        async with opened() as saver:
            answer = await asked(agent(talk, checkpointer=saver), None)

        assert sorted(talk.sidecar.runner.started) == ["rewards", "shop"]
        assert (talk.dispatches, talk.sidecar.runner.cancelled) == (1, [])
    assert [result.dispatch_id for result in answer.results] == kept["dispatch_ids"]
    assert answer.text == "Here is what I found: hello from shop; hello from rewards"


async def test_outcomes_are_the_same_although_the_turn_was_over_meanwhile(opened: Opened) -> None:
    """Nobody came back in time: the sidecar has ended the turn. What ran in it is not run again."""
    async with talking(calling("ask_shop"), composes) as talk:
        async with opened() as saver:
            await cancelled_in_mid_dispatch(talk, saver, "shop")
            await talk.sidecar.recorder.until("dispatch_settled")
            kept = await kept_turn(agent(talk, checkpointer=saver))
            await ended_meanwhile(talk, kept["turn_id"])
        async with opened() as saver:
            answer = await asked(agent(talk, checkpointer=saver), None)

        assert talk.sidecar.runner.started == ["shop"]
    assert answer.text == "Here is what I found: hello from shop"
    assert answer.end is not None


async def test_a_call_that_is_approved_after_its_turn_was_over_runs_in_the_next_turn_once(opened: Opened) -> None:
    """The agent is cancelled while it runs, and its successor finds the next turn by itself."""
    go = asyncio.Event()
    async with talking(calling("ask_shop"), composes) as talk:
        talk.sidecar.runner.use("shop", waits_for(go))
        async with opened() as saver:
            first = agent(talk, asks_first("ask_shop"), checkpointer=saver)
            await asked(first)
            kept = await kept_turn(first)
            await ended_meanwhile(talk, kept["turn_id"])
            await cancelled_once_started(talk, asked(first, decides(APPROVE)), "shop")
        go.set()
        async with opened() as saver:
            answer = await asked(agent(talk, asks_first("ask_shop"), checkpointer=saver), None)

        assert talk.sidecar.runner.started == ["shop"]
        assert [turn_id == kept["turn_id"] for turn_id in turns_routed(talk)] == [True, False]
    assert answer.text == "Here is what I found: hello from shop"


async def test_a_run_without_checkpoints_that_is_left_early_ends_its_turn_as_abandoned() -> None:
    """No other run can go on with it: what was answered is in no answer, and is recorded like that."""
    async with talking(calling("ask_shop"), composes) as talk, talk.orchestrator.turn(TURN) as active:
        run = talk.orchestrator.graph.astream({"messages": [("user", "?")]}, context=active, stream_mode="values")
        async with aclosing(run) as items:
            async for item in items:
                if isinstance(item["messages"][-1], ToolMessage):
                    break

    assert active.end is not None
    assert [child.close_reason for child in active.end.children] == ["integration_failed"]


async def test_nobody_else_can_go_on_with_a_turn(opened: Opened) -> None:
    """Another principal is refused before the decision is taken, and the right one can still decide."""
    async with talking(calling("ask_shop"), composes) as talk, opened() as saver:
        orchestrator = agent(talk, asks_first("ask_shop"), checkpointer=saver)
        await asked(orchestrator)
        stranger = replace(TURN, principal="user-2")
        with pytest.raises(ForeignTurn, match="another principal"):
            await orchestrator.answer(stranger, decides(APPROVE), config=THREAD)
        with pytest.raises(ForeignTurn, match="another principal"):
            await orchestrator.stop(stranger, THREAD)

        assert talk.sidecar.runner.started == []
        assert (await asked(orchestrator, decides(APPROVE))).text == "Here is what I found: hello from shop"


@pytest.mark.parametrize("node", ["SidecarMiddleware.before_agent", "model", "tools", "SidecarMiddleware.after_agent"])
async def test_a_turn_goes_on_from_wherever_it_stopped(node: str, opened: Opened) -> None:
    """Before it was bound, between its steps, or before its end: one turn, one dispatch, one answer."""
    async with talking(calling("ask_shop"), composes) as talk:
        async with opened() as saver:
            orchestrator = agent(talk, checkpointer=saver, interrupt_before=[node])
            assert (await asked(orchestrator)).end is None
        async with opened() as saver:
            answer = await asked(agent(talk, checkpointer=saver), None)

        assert (talk.sidecar.runner.started, talk.dispatches) == (["shop"], 1)
        assert len(turns_routed(talk)) == 1
    assert answer.text == "Here is what I found: hello from shop"
    assert answer.end is not None
    assert routed(answer) == [("shop", "succeeded")]


@pytest.mark.parametrize("ended_first", [False, True])
async def test_going_on_where_nothing_waits_is_refused(ended_first: bool, opened: Opened) -> None:
    """An empty thread, and one whose turn has come to its end."""
    async with talking(says("Hello.")) as talk, opened() as saver:
        orchestrator = agent(talk, checkpointer=saver)
        if ended_first:
            await asked(orchestrator)
        with pytest.raises(ValueError, match="no turn waits"):
            await asked(orchestrator, None)


async def stopped(orchestrator: Orchestrator) -> None:
    """Stop the turn that waits."""
    await orchestrator.stop(TURN, THREAD)


async def asked_something_else(orchestrator: Orchestrator) -> None:
    """Begin another turn in the same thread."""
    answer: Answer = await asked(orchestrator, "Never mind.")
    validate_history(answer.messages)
    assert answer.text == "Fine."


@pytest.mark.parametrize("leave", [stopped, asked_something_else])
async def test_a_turn_that_nobody_goes_on_with_is_ended_and_its_sub_agents_stopped(
    leave: Callable[[Orchestrator], Any], opened: Opened
) -> None:
    """By a word, or by the user's next message."""
    async with talking(calling("ask_shop"), says("Fine.")) as talk:
        talk.sidecar.runner.use("shop", hangs())
        async with opened() as saver:
            await cancelled_in_mid_dispatch(talk, saver, "shop")
            orchestrator = agent(talk, checkpointer=saver)
            kept = await kept_turn(orchestrator)
            await leave(orchestrator)
            await talk.sidecar.runner.until_cancelled("shop")

        assert kept["turn_id"] in turns_routed(talk)
