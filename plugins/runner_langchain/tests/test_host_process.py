"""The host as a process of its own, beside a sidecar process: started, used, drained."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sidecar_runner_langchain.__main__ import main
from subagents_client import Outcome, ToolCall, TurnRequest
from subagents_client.events import StatusUpdate
from tests.support.reference_ccs import RunningCcs, running_reference_ccs
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, place, serving
from tests.support.whole_chain import CONFIGURED_ENDPOINT

pytestmark = pytest.mark.system

OFFLINE = "plugins.runner_langchain.tests.support.offline"
FACTORIES = ("--models", f"{OFFLINE}:models", "--graphs", f"{OFFLINE}:graphs", "--tools", f"{OFFLINE}:tools")
STATUS = '\n[status.events.searching_offers]\npolicy = "forward"\n'
IN_PROCESS = f"""
[plugins]
enabled = ["langchain"]

[policy.default]
runner = "langchain"

[runners.langchain]
plugin = "langchain"
models = "{OFFLINE}:models"
"""
START_SECONDS = 20.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the processes keep their sockets."""
    with place() as made:
        yield made


@asynccontextmanager
async def host_process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a host; whatever is left of it at the end is killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sidecar_runner_langchain", *arguments),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: asyncio.subprocess.Process, words: str) -> None:
    """Wait for a line with these words."""
    assert process.stderr is not None
    lines = []
    async with asyncio.timeout(START_SECONDS):
        async for line in process.stderr:
            lines.append(line.decode())
            if words in lines[-1]:
                return
    raise AssertionError("".join(lines))


def definitions(folder: Path, ccs: RunningCcs) -> None:
    """Point the example's tools at the data service, and let the search announce itself."""
    file = folder / "config" / "agent_config.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace(CONFIGURED_ENDPOINT, ccs.endpoint), encoding="utf-8")


@requirement("PC1-FR-13a")
@pytest.mark.real_start
async def test_cards_and_a_graph_run_in_one_host_process(folder: Path) -> None:
    """`shop` is a card that reads data and reports status and tokens, `rewards` a graph; SIGTERM ends the host."""
    target = f"unix:{folder}/shop.sock"
    async with running_reference_ccs() as ccs, host_process("--listen", target, *FACTORIES) as host:
        definitions(folder, ccs)
        # One host for both slots, where the settings name an address for each.
        (folder / "rewards.sock").symlink_to(folder / "shop.sock")
        await said(host, "serving")
        async with serving(folder, more=STATUS) as sidecar, sidecar.client() as client:
            turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
            shop = ToolCall("call-1", "ask_shop", '{"request": "beans"}')
            rewards = ToolCall("call-2", "ask_rewards", '{"request": "points?"}')
            async with turn.dispatch([shop, rewards]) as stream:
                events = [event async for event in stream]
                result = await stream.result()
        assert [each.outcome for each in result.outcomes] == [Outcome.SUCCEEDED] * 2
        assert "Harbour Roasters" in result.outcomes[0].narration
        assert result.outcomes[1].narration == "a graph of its own"
        assert "searching_offers" in [event.type for event in events if isinstance(event, StatusUpdate)]
        assert [call.principal for call in ccs.calls] == ["user-1"]
        host.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_SECONDS):
            assert await host.wait() == 0


async def test_a_sidecar_runs_cards_by_itself_once_the_plugin_is_enabled(folder: Path) -> None:
    """No host process: the runner `langchain`, data through the gateway's socket with the grant of the attempt."""
    async with running_reference_ccs() as ccs:
        definitions(folder, ccs)
        async with serving(folder, more=IN_PROCESS) as sidecar, sidecar.client() as client:
            turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
            result = await turn.dispatch_and_wait([ToolCall("call-1", "ask_shop", '{"request": "beans"}')])
        assert [each.outcome for each in result.outcomes] == [Outcome.SUCCEEDED]
        assert "Harbour Roasters" in result.outcomes[0].narration
        assert [call.principal for call in ccs.calls] == ["user-1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--models", "nowhere:models"), "nowhere:models cannot be loaded"),
        (("--models", "models"), "not of the form module:factory"),
        (("--graphs", f"{OFFLINE}:nothing"), "does not return graphs by name"),
        (("--tools", f"{OFFLINE}:nothing"), "does not return async functions by name"),
        (("--listen", "0.0.0.0:1"), "cannot start"),
    ],
)
def test_a_host_that_cannot_start_says_why(
    arguments: tuple[str, ...], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 78, one line."""
    assert main(["--listen", f"unix:{folder}/shop.sock", *arguments]) == 78
    assert words in capsys.readouterr().err
