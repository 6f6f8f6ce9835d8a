"""Two verticals of one sidecar use one plugin with different settings: flags, runners, connectors, the memory.

`tests/system/rollout/test_plugin_instances.py` shows the same for gates, lifecycle policies and audit sinks.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.policy.problems import PluginProblem
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client.runner import DataUnavailable, Run, RunnerHost
from tests.support.whole_chain import asks, running_chain

VERTICALS = ("shop", "rewards")
FLAGS = {slot: f"ai_assistant_subagent_{slot}" for slot in VERTICALS}
NAMES_ITS_FLAG = {f"  - id: {slot}\n": f"  - id: {slot}\n    enabled_via_flag: {FLAGS[slot]}\n" for slot in VERTICALS}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="pi") as name:
        yield Path(name)


def chosen(kind: str) -> dict[str, Any]:
    """Let each vertical choose the instance with its own name; everything else is as in the chain."""
    default = {"flags": "watched", "runner": "grpc", "connector": "rest"}
    return {"policy": {"default": default, "verticals": {name: {kind: f"of-{name}"} for name in VERTICALS}}}


def narrations(result: pb.DispatchResult) -> list[str]:
    """Return what the sub-agents said, in order."""
    return [outcome.narration for outcome in result.outcomes]


async def test_each_vertical_reads_its_own_flag_file(folder: Path) -> None:
    """Both are the backend `file`; both files name both flags, and each vertical heeds its own."""
    for name, rewards_is_on in (("shop", True), ("rewards", False)):
        states = {FLAGS["shop"]: True, FLAGS["rewards"]: rewards_is_on}
        states |= {f"{flag}_cohort": on for flag, on in states.items()}
        (folder / f"{name}.json").write_text(json.dumps({"flags": states}))
    flags = {f"of-{name}": {"plugin": "file", "path": str(folder / f"{name}.json")} for name in VERTICALS}

    async with running_chain(NAMES_ITS_FLAG, settings={**chosen("flags"), "flags": flags}) as chain:
        tools = [tool.name for tool in (await chain.bind()).surface.sub_agent_tools]
        metrics = await chain.metrics()

    assert ("ask_shop" in tools, "ask_rewards" in tools) == (True, False)
    assert all(f'="of-{name}"' in metrics for name in VERTICALS)


async def test_each_vertical_reaches_its_own_runner_host(folder: Path) -> None:
    """Both are the runner `grpc`; each instance has its own target."""
    hosts = {name: RunnerHost() for name in VERTICALS}
    for name, host in hosts.items():
        _answers_as(host, f"the host of {name}")
    runners = {f"of-{name}": {"plugin": "grpc", "target": f"unix:{folder}/{name}.sock"} for name in VERTICALS}
    settings = {**chosen("runner"), "runners": runners, "targets": {}}

    async with (
        hosts["shop"].serving(f"unix:{folder}/shop.sock"),
        hosts["rewards"].serving(f"unix:{folder}/rewards.sock"),
        running_chain(settings=settings) as chain,
    ):
        result = await chain.dispatch(await chain.bind(), "ask_shop", "ask_rewards")

    assert narrations(result) == ["the host of shop", "the host of rewards"]


def _answers_as(host: RunnerHost, text: str) -> None:
    @host.any_sub_agent()
    async def any_slot(run: Run) -> str:
        return text


async def test_each_vertical_has_its_own_connector() -> None:
    """Both are the connector `rest`; the same answer is too large for one instance and not for the other."""
    connectors = {
        "of-shop": {"plugin": "rest", "max_body_bytes": 1024 * 1024},
        "of-rewards": {"plugin": "rest", "max_body_bytes": 1024},
    }
    async with running_chain(settings={**chosen("connector"), "connectors": connectors}) as chain:
        chain.service.change = lambda envelope: {**envelope, "cache_meta": {"key": "x" * 4000}}
        chain.use("shop", asks("search_offers", query="coffee"))
        chain.use("rewards", asks("points_balance"))
        await chain.dispatch(await chain.bind(), "ask_shop")
        await chain.dispatch(await chain.bind(), "ask_rewards")

    assert [isinstance(data, DataUnavailable) for data in chain.received] == [False, True]


async def test_the_memory_is_an_instance_with_its_own_file(folder: Path) -> None:
    """A conversation of all verticals has one memory; the settings of the instance say where it is."""
    memories = {"conversations": {"plugin": "store", "path": str(folder / "mine.sqlite")}}
    policy = {"policy": {"default": {"flags": "watched", "memory": "conversations"}}}

    async with running_chain(settings={**policy, "memories": memories}) as chain:
        bound = await chain.bind(episode_id="e-1")
        await chain.dispatch(bound, "ask_shop")
        await chain.end(bound)

    assert (folder / "mine.sqlite").exists()


async def test_an_instance_with_wrong_settings_refuses_the_start_by_its_own_name() -> None:
    """The section in the message is the one that the operator wrote."""
    flags = {"of-shop": {"plugin": "file", "pth": "x.json"}}
    with pytest.raises(PluginProblem, match=r"\[flags\.of-shop\]") as refused:
        async with running_chain(settings={**chosen("flags"), "flags": flags}):
            pass

    assert "`pth` may mean `path`" in str(refused.value)
