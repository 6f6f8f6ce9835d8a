"""The surface's sub-agents as LangChain tools, held to LangChain's own standard tests."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from subagents_client import BoundTurn, Outcome, SidecarClient, TurnRequest
from subagents_langchain import outcome_in, tools_of
from tests.support.builders import a_card
from tests.support.fake_runner import raises, waits_for
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests
from tests.support.requirement import requirement


async def bound(stack: AsyncExitStack, sidecar: SidecarForTests) -> BoundTurn:
    """Bind a turn over the socket."""
    client = await stack.enter_async_context(SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET))
    return await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))


class Elsewhere:
    """A sidecar and a bound turn whose event loop runs in another thread, as a blocking caller needs it."""

    def __init__(self) -> None:
        self.tools: list[BaseTool] = []
        self._ready = threading.Event()
        self._done = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="sidecar and turn")

    def __enter__(self) -> "Elsewhere":
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_done())

    async def _until_done(self) -> None:
        async with AsyncExitStack() as stack:
            sidecar = await stack.enter_async_context(running_sidecar_for_tests(max_dispatches=64))
            self.tools = tools_of(await bound(stack, sidecar))
            self._ready.set()
            await self._done.wait()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    """One for all standard tests."""
    with Elsewhere() as running:
        yield running


class StandardTool:
    """What the standard tests ask about a tool."""

    @property
    def tool_constructor(self) -> Any:
        """Not used: the tool comes from a bound turn."""
        return BaseTool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        """Arguments as the definition's schema wants them."""
        return {"request": "what is on offer?", "intent_count": 1}

    @pytest.fixture
    def tool(self, elsewhere: Elsewhere) -> BaseTool:
        """The first one of the surface."""
        return elsewhere.tools[0]


class TestStandardUnit(StandardTool, ToolsUnitTests):
    """LangChain's standard unit tests."""

    @pytest.fixture(autouse=True)
    def _constructed(self, tool: BaseTool) -> None:
        self._tool = tool

    @property
    def tool_constructor(self) -> Any:
        """The tool itself."""
        return self._tool

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        """Nothing of it comes from the environment."""
        return {}, {}, {}


class TestStandardIntegration(StandardTool, ToolsIntegrationTests):
    """LangChain's standard integration tests, over the socket."""


@requirement("PC2-AC-1", "PC2-FR-2a", "PC2-FR-2b")
async def test_a_provider_is_shown_name_description_and_schema_of_each_sub_agent() -> None:
    """As LangChain sends them out; the description, with its blanks and marks, character for character."""
    odd = "  Knows «offers»,\n\tand nothing else.  "
    cards = [a_card("shop", description=odd), a_card("rewards"), a_card("support")]
    async with AsyncExitStack() as stack:
        sidecar = await stack.enter_async_context(running_sidecar_for_tests(cards=cards))
        turn = await bound(stack, sidecar)
        shown = [convert_to_openai_tool(tool)["function"] for tool in tools_of(turn)]

    assert [one["name"] for one in shown] == ["ask_shop", "ask_rewards", "ask_support"]
    assert [one["description"] for one in shown] == [odd, "Knows about rewards.", "Knows about support."]
    assert shown[0]["parameters"]["required"] == ["request"]


async def test_a_tool_answers_with_text_and_the_outcome_as_artifact() -> None:
    """Also if the sub-agent failed: that is an outcome, not an exception."""
    async with AsyncExitStack() as stack:
        sidecar = await stack.enter_async_context(running_sidecar_for_tests())
        sidecar.runner.use("rewards", raises(RuntimeError("CANARY")))
        shop, rewards, _ = tools_of(await bound(stack, sidecar))
        good = await shop.ainvoke({"name": shop.name, "args": {"request": "x"}, "id": "c1", "type": "tool_call"})
        bad = await rewards.ainvoke({"name": rewards.name, "args": {"request": "x"}, "id": "c2", "type": "tool_call"})

    assert (good.content, good.tool_call_id) == ("hello from shop", "c1")
    assert [outcome.outcome for one in (good, bad) if (outcome := outcome_in(one))] == [
        Outcome.SUCCEEDED,
        Outcome.FAILED,
    ]
    assert [good.status, bad.status] == ["success", "error"]
    assert "CANARY" not in str(bad)


async def test_a_blocking_call_in_the_loop_of_the_turn_is_refused_instead_of_hanging() -> None:
    """It could never end."""
    async with AsyncExitStack() as stack:
        sidecar = await stack.enter_async_context(running_sidecar_for_tests())
        shop = tools_of(await bound(stack, sidecar))[0]
        with pytest.raises(RuntimeError, match="ainvoke"):
            shop.invoke({"request": "x"})


async def test_names_in_a_schema_do_not_collide_with_those_of_langchain() -> None:
    """A definition may call its arguments `config`, `run_manager` or `self`."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("config", "run_manager", "self")}}
    async with AsyncExitStack() as stack:
        sidecar = await stack.enter_async_context(running_sidecar_for_tests(cards=[a_card("shop", arguments=schema)]))
        shop = tools_of(await bound(stack, sidecar))[0]
        await shop.ainvoke({"config": "a", "run_manager": "b", "self": "c"})

        assert '"self": "c"' in str(sidecar.runner.request_of("shop"))


async def test_a_tool_returns_while_another_one_of_its_dispatch_still_runs() -> None:
    """The sub-agent rewards goes on only once the tool of shop has returned."""
    async with AsyncExitStack() as stack, running_sidecar_for_tests() as sidecar:
        returned = asyncio.Event()
        sidecar.runner.use("rewards", waits_for(returned))
        shop, rewards = tools_of(await bound(stack, sidecar))[:2]

        async def ask_shop() -> Any:
            answer = await shop.ainvoke({"request": "socks"})
            returned.set()
            return answer

        async with asyncio.timeout(20):
            answers = await asyncio.gather(ask_shop(), rewards.ainvoke({"request": "points"}))

    assert answers == ["hello from shop", "hello from rewards"]
