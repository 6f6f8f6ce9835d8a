"""The Python of the documents runs. What a fragment leaves out, the test gives it by name: that is its preamble."""

import ast
import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph

from clients.python.tests.support.gateway_host import FakeGateway, gateway
from clients.python.tests.support.sidecar_side import hosted, request, said
from plugins.runner_langchain.tests.support import requests as attempts
from sidecar.core.identifiers import DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.states import LifecycleState
from sidecar.policy.lifecycle import Step, StepFacts
from sidecar.policy.protocols import StatusReported
from sidecar_runner_langchain import AgentRuntime, current_run
from sidecar_runner_langchain.in_process import LangChainRunner
from subagents.dispatch.v1.dispatch_pb2 import ToolCall
from subagents.runner.v1 import runner_pb2
from subagents.tools.v1 import tools_pb2
from subagents_client import CompactionDue, SidecarClient, TurnFilter, TurnRequest, TurnState
from subagents_client.legacy import strip_components
from subagents_client.runner import Run, RunnerHost
from tests.documents.blocks import block
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests
from tests.support.history import a_turn, rules


async def ran(name: str, preamble: dict[str, Any] | None = None, **replaced: str) -> dict[str, Any]:
    """Run a block, with what it leaves out and with other addresses; return every name it has afterwards."""
    code = block(name).text
    for old, new in (each.split("=>") for each in replaced.values()):
        assert old in code
        code = code.replace(old, new)
    names = {"__name__": "from_the_documents", **(preamble or {})}
    compiled = compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    awaited = eval(compiled, names)
    if inspect.isawaitable(awaited):
        await awaited
    return names


def client_of(sidecar: SidecarForTests) -> SidecarClient:
    """Return a client of a sidecar of the tests."""
    return SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET)


async def test_the_first_sample_of_the_readme_runs_a_turn(tmp_path: Path) -> None:
    """Bind, two models of one's own, dispatch, end: against a real sidecar, and every call is answered."""

    async def your_model(prompt: Any, messages: Any, tools: Any) -> list[SimpleNamespace]:
        return [SimpleNamespace(id="call-1", name=tools[0].name, arguments_json=json.dumps({"request": "socks"}))]

    async def your_model_again(messages: list[str], answers: Sequence[tuple[str, str]]) -> str:
        return f"{messages[0]} It says: {answers[0][1]}, for {answers[0][0]}"

    (tmp_path / "boot-secret").write_text(SECRET)
    async with running_sidecar_for_tests() as sidecar:
        page = await ran(
            "README.md: from pathlib import Path",
            {"your_model": your_model, "your_model_again": your_model_again},
            secret=f".run/dispatch/boot-secret=>{tmp_path}/boot-secret",
            socket=f"unix:.run/dispatch/sidecar.sock=>{sidecar.dispatch_target}",
        )
        answer = await page["one_turn"]("user-1", "episode-1", ["Any socks?"])

        assert answer == "Any socks? It says: hello from shop, for call-1"
        assert len(sidecar.recorder.of("turn_routed")) == 1


async def test_the_sub_agent_of_the_readme_answers(tmp_path: Path) -> None:
    """With data, and without."""
    page = await ran("README.md: import asyncio")
    fake, texts = FakeGateway(), []
    async with gateway(fake, tmp_path) as target, hosted(page["host"], tmp_path) as here:
        for fake.answer in (tools_pb2.CallToolResponse(payload_json="[7]"), tools_pb2.CallToolResponse()):
            responses = await here.run(request("shop", gateway_target=target))
            assert said(responses)[0] == "status"
            texts.append("".join(each.narration for each in responses))

    assert texts == ["I found: [7]", "Nothing to be had just now."]


async def test_a_sub_agent_delegates_as_shown(tmp_path: Path) -> None:
    """To one that it may ask; asked with nobody to ask, it says so."""
    host = RunnerHost()
    await ran('docs/delegation.md: @host.sub_agent("shop")', {"host": host, "Run": Run})
    fake = FakeGateway(delegated=tools_pb2.DelegateResponse(narration="7 points."))
    may_ask = [runner_pb2.DelegateTool(name="ask_rewards", description="x", arguments_schema_json="{}")]
    async with gateway(fake, tmp_path) as target, hosted(host, tmp_path) as here:
        alone = await here.run(request("shop", gateway_target=target))
        asking = await here.run(request("shop", gateway_target=target, delegates=may_ask))

    assert "".join(each.narration for each in alone) == "Nothing is known of the points."
    assert "".join(each.narration for each in asking) == "Rewards says: 7 points."


async def test_history_is_read_and_compacted_as_shown() -> None:
    """Eight turns with a threshold of six: the messages of the episode, then a summary that stands in for three."""
    summaries: list[str] = []

    async def summarise(before: Any, older: Any) -> str:
        summaries.append(f"{len(older)} turns about socks")
        return summaries[-1]

    async with running_sidecar_for_tests(rules=rules(above_turns=6, recent_turns=5)) as sidecar:
        for number in range(8):
            await a_turn(sidecar, turn_id=f"t-{number}", narration=f"answer {number}", user_message=f"words {number}")
        async with client_of(sidecar) as client:
            names = {"client": client, "episode_id": "episode-1", "user_id": "user-1", "TurnRequest": TurnRequest}
            read = await ran("docs/history.md: turn = await client.bind_turn(TurnRequest(episode_", names)
            more = {**read, "CompactionDue": CompactionDue, "summarise": summarise}
            await ran("docs/history.md: if turn.surface.compaction_due is CompactionDue.DU", more)
            after = await client.read_episode("episode-1", "user-1")

    assert [text for _, text in read["messages"]][:2] == ["words 0", "answer 0"]
    assert summaries == ["3 turns about socks"]
    assert (after.summary.text if after.summary else "") == "3 turns about socks"


async def test_a_sub_agent_reads_its_own_turns_as_shown(tmp_path: Path) -> None:
    """One turn of before."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        names = await ran("docs/history.md: earlier = await run.read_own_turns()  # asked, ans", {"run": run})
        return ", ".join(each.answered for each in names["earlier"])

    own = tools_pb2.ReadOwnTurnsResponse(
        turns=[tools_pb2.OwnTurn(turn_id="t-1", asked="socks?", narration="Blue ones.")]
    )
    async with gateway(FakeGateway(own_turns=own), tmp_path) as target, hosted(host, tmp_path) as here:
        responses = await here.run(request("shop", gateway_target=target))

    assert "".join(each.narration for each in responses) == "Blue ones."


async def test_components_are_stripped_as_shown() -> None:
    """A text without any stays what it is."""
    names = {"strip_components": strip_components, "text": "Two pairs fit."}
    stripped = (await ran("docs/history.md: stripped = strip_components(text)  # narration, co", names))["stripped"]

    assert (stripped.narration, list(stripped.components), list(stripped.left_out)) == ("Two pairs fit.", [], [])


async def test_the_record_is_read_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """An open turn is listed, read with its contracts, and followed to its end."""
    async with running_sidecar_for_tests() as sidecar, client_of(sidecar) as client:
        bound = await sidecar.bind(turn_id="t-1")
        await sidecar.dispatch(bound, "ask_shop")

        async def ends_while_it_is_followed(turn_id: str) -> AsyncIterator[Any]:
            await sidecar.end(bound)
            async for batch in client.history.watch_events(turn_id):
                yield batch

        history = SimpleNamespace(
            list_turns=client.history.list_turns,
            get_turn=client.history.get_turn,
            watch_events=ends_while_it_is_followed,
        )
        names = {"client": SimpleNamespace(history=history), "TurnState": TurnState, "json": json, "aclosing": aclosing}
        names["TurnFilter"] = TurnFilter
        async with asyncio.timeout(10):
            read = await ran("docs/seeing-turns.md: page = await client.history.list_turns(TurnFilter(", names)

    assert [each["sub_agent_id"] for each in read["contracts"]] == ["shop"]
    assert "closed: completed" in capsys.readouterr().out


async def test_a_graph_of_the_runner_page_reports_and_answers(tmp_path: Path) -> None:
    """In the runtime, with a gateway that has trains."""
    preamble = {
        "AIMessage": AIMessage,
        "MessagesState": MessagesState,
        "current_run": current_run,
        "get_stream_writer": get_stream_writer,
    }
    page = await ran("docs/langchain-runner.md: def graphs():", preamble)
    builder = StateGraph(MessagesState)
    builder.add_node("search", page["search"])
    builder.add_edge(START, "search")
    page["travel_graph"] = builder.compile()
    runtime = AgentRuntime(graphs={"scripted": page["graphs"]()["travel"]})
    async with gateway(FakeGateway(tools_pb2.CallToolResponse(payload_json="[9]")), tmp_path) as target:
        runner = LangChainRunner(runtime.run, target)
        events = await attempts.events_of(runner, attempts.a_request(attempts.a_card()))
        await runner.close()

    assert StatusReported("searching_trains", {"to": "Basel"}) in events
    assert "[9]" in attempts.said(events)


async def test_a_function_of_ones_own_asks_a_model_with_the_prompt_of_the_card(tmp_path: Path) -> None:
    """The model gets prefix and suffix as one system prompt, then the request."""
    asked: list[Any] = []

    class Model:
        async def ainvoke(self, messages: Any) -> AIMessage:
            asked.extend(messages)
            return AIMessage("To Basel.")

    host = RunnerHost()
    preamble = {"host": host, "Run": Run, "scripted": lambda _name: Model()}
    used = "init_chat_model(run.card=>scripted(run.card"
    await ran("docs/langchain-runner.md: from langchain.chat_models import init_chat_model", preamble, model=used)
    card = runner_pb2.CardContent(prompt_prefix="You travel. ", provider_model="openai:x")
    async with hosted(host, tmp_path) as here:
        responses = await here.run(request("travel", card=card))

    assert "".join(each.narration for each in responses) == "To Basel."
    assert asked == [("system", "You travel. today"), ("user", "socks")]


async def test_the_runtime_is_served_as_shown(tmp_path: Path) -> None:
    """Until it is told to stop; the host answers meanwhile."""
    target = f"unix:{tmp_path}/a.sock"

    async def note(arguments: Any, run: Run) -> str:
        return "noted"

    async def node(state: MessagesState) -> dict[str, Any]:
        return {}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    serving = asyncio.create_task(
        ran(
            "docs/langchain-runner.md: from sidecar_runner_langchain import AgentRuntime,",
            {"note": note, "travel_graph": builder.compile()},
            socket=f"unix:/run/agents/agents.sock=>{target}",
        )
    )
    async with asyncio.timeout(10), grpc.aio.insecure_channel(target) as channel:
        await asyncio.wait_for(channel.channel_ready(), 10)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert serving.cancelled()


async def test_the_policy_of_the_page_denies_on_fridays() -> None:
    """A raise on a Friday and on a Saturday."""
    policy = (await ran("docs/lifecycle-policies.md: from sidecar.policy.lifecycle import PolicyAnswer,"))[
        "NoFridays"
    ]()

    def at(day: int) -> str:
        facts = StepFacts(
            step=Step.SET_RAMP,
            slot=Slot("shop"),
            definition_id=DefinitionId("shop"),
            digest=Digest("sha256:1"),
            vertical=Vertical("shop"),
            state=LifecycleState.PROMOTE,
            from_ramp=0,
            to_ramp=500,
            actor="ada",
            approvals=(),
            last_step_at=None,
            now=datetime(2026, 11, day, tzinfo=UTC),
        )
        return str(policy.check(facts).denied)

    assert (at(27), at(28)) == ("not on a Friday", "")


async def test_the_feedback_of_a_user_is_recorded_as_shown() -> None:
    """The sample scores a call of the turn's user, and gets back what was scored."""
    async with running_sidecar_for_tests() as sidecar, client_of(sidecar) as client:
        bound = await sidecar.bind(turn_id="t-1", principal="user-20")
        await sidecar.dispatch(
            bound,
            ToolCall(call_id="c-1", tool_name="ask_shop", arguments_json='{"request": "socks"}'),
            dispatch_id="d-1",
        )
        names = await ran("docs/scores.md: from subagents_client import Score, ScoreSource", {"client": client})

    assert (names["scored"].definition_id, names["scored"].arm) == ("shop", "active")
