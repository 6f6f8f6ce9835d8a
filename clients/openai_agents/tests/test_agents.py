"""Agents of the real OpenAI Agents SDK on a real sidecar socket; only the model is a script."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from agents import (
    Agent,
    RunConfig,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    set_tracing_disabled,
    tool_input_guardrail,
)
from agents.testing import ScriptedModel, assistant_message, function_call

from subagents_client import BoundTurn, CallOutcome, Outcome, SidecarClient, ToolCall, TurnRequest
from subagents_client.coalescing import Coalescer
from subagents_openai_agents import SubAgents
from tests.support.builders import a_card
from tests.support.fake_runner import meets, raises
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests

README = Path(__file__).resolve().parents[1] / "README.md"
THREE = [function_call(f"ask_{one}", {"request": one}, call_id=f"c-{one}") for one in ("shop", "rewards", "support")]
PATIENT = timedelta(minutes=5)
ANSWERED = [f"c-{one}" for one in ("shop", "rewards", "support")]


@pytest.fixture(autouse=True)
def _no_tracing() -> None:
    set_tracing_disabled(True)


class Watched(Coalescer):
    """Says when two calls have arrived."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.two_arrived = asyncio.Event()
        self._arrived = 0

    async def ask(self, call: ToolCall) -> CallOutcome:
        """Count the call."""
        self._arrived += 1
        if self._arrived == 2:
            self.two_arrived.set()
        return await super().ask(call)


@asynccontextmanager
async def bound(**setup: Any) -> AsyncIterator[tuple[SidecarForTests, BoundTurn]]:
    """Serve a sidecar and bind a turn over its socket."""
    async with (
        running_sidecar_for_tests(**setup) as sidecar,
        SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET) as client,
    ):
        yield sidecar, await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))


def answers_in(history: Any) -> list[tuple[str, str]]:
    """Return the tool answers that the model was shown, in order."""
    return [(one["call_id"], one["output"]) for one in history if one.get("type") == "function_call_output"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_three_parallel_tools_are_one_dispatch_with_the_right_history(*, streamed: bool) -> None:
    """The sub-agents wait for each other, so separate dispatches one after the other would never end."""
    model = ScriptedModel([THREE, [assistant_message("Here you are.")]])
    async with bound(cap=3) as (sidecar, turn), Coalescer(turn) as coalescer:
        for slot, others in (("shop", "rewards"), ("rewards", "support"), ("support", "shop")):
            sidecar.runner.use(slot, meets(others))
        sub_agents = SubAgents(coalescer)
        agent = Agent("assistant", model=model, tools=list(sub_agents.tools))
        if streamed:
            run: Any = Runner.run_streamed(agent, "What is new?", hooks=sub_agents.hooks)
            _ = [event async for event in run.stream_events()]
        else:
            run = await Runner.run(agent, "What is new?", hooks=sub_agents.hooks)
        end = await turn.end(run.final_output)

    assert run.final_output == "Here you are."
    assert [len(one.outcomes) for one in coalescer.results] == [3]
    assert [call for call, _ in answers_in(model.calls[1].input)] == ANSWERED
    assert [call.call_id for call in end.routing_decision.calls] == ANSWERED
    assert all(one.outcome is Outcome.SUCCEEDED for one in coalescer.outcomes.values())


async def test_a_slow_guardrail_does_not_split_the_dispatch_or_change_its_order() -> None:
    """The first call arrives last; its siblings wait for it, and the dispatch keeps the order of the response."""

    @tool_input_guardrail
    async def slow(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        await coalescer.two_arrived.wait()
        return ToolGuardrailFunctionOutput.allow()

    model = ScriptedModel([THREE, [assistant_message("Done.")]])
    async with bound(cap=3) as (_, turn), Watched(turn, patience=PATIENT) as coalescer:
        sub_agents = SubAgents(coalescer)
        sub_agents.tools[0].tool_input_guardrails = [slow]
        agent = Agent("assistant", model=model, tools=list(sub_agents.tools))
        await Runner.run(agent, "?", hooks=sub_agents.hooks)

    assert [[one.call_id for one in result.outcomes] for result in coalescer.results] == [ANSWERED]


async def test_a_failed_sub_agent_is_an_answer_that_the_model_reads() -> None:
    """The run goes on, and the words of the fault do not leave the sidecar."""
    model = ScriptedModel([THREE, [assistant_message("Partly done.")]])
    async with bound(cap=3) as (sidecar, turn), Coalescer(turn) as coalescer:
        sidecar.runner.use("rewards", raises(RuntimeError("CANARY")))
        sub_agents = SubAgents(coalescer)
        agent = Agent("assistant", model=model, tools=list(sub_agents.tools))
        await Runner.run(agent, "?", hooks=sub_agents.hooks, run_config=RunConfig(tracing_disabled=True))

    answers = dict(answers_in(model.calls[1].input))
    assert answers["c-shop"] == "hello from shop"
    assert answers["c-rewards"] == coalescer.outcomes["c-rewards"].tool_message()
    assert coalescer.outcomes["c-rewards"].outcome is Outcome.FAILED
    assert "CANARY" not in str(answers)


async def test_the_model_is_shown_each_definition_as_it_is() -> None:
    """Name, description and schema, in the order of the surface."""
    odd = "  Knows «offers»,\n\tand nothing else.  "
    async with bound(cards=[a_card("shop", description=odd), a_card("rewards")]) as (_, turn):
        tools = SubAgents(Coalescer(turn)).tools
    assert [(one.name, one.description) for one in tools] == [
        ("ask_shop", odd),
        ("ask_rewards", "Knows about rewards."),
    ]
    assert tools[0].params_json_schema["required"] == ["request"]


async def test_the_example_of_the_readme_runs() -> None:
    """One turn from bind to end."""
    page = ModuleType("readme")
    exec(re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[0], page.__dict__)
    model = ScriptedModel([THREE, [assistant_message("Here you are.")]])
    async with (
        running_sidecar_for_tests(cap=3) as sidecar,
        SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET) as client,
    ):
        assert await page.one_answer(client, model, "What is new?") == "Here you are."
        assert len(sidecar.recorder.of("turn_routed")) == 1
