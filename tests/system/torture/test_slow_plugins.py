"""How long binds of other users take while a gate, a flag backend and a runner answer slowly, at length, or block.

The plugins are those of the kit, in a sidecar of its own. The figures are printed; what is asserted are outcomes: each
bind is answered, and the vertical of the plugins fails closed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import grpc
import pytest

from subagents.lifecycle.v1 import reading_pb2
from subagents_client import SidecarClient, SubagentsError, ToolCall, TurnRequest
from tests.support.operated_process import OperatedProcess, operated_process
from tests.support.sidecar_process import next_look, place
from tests.system.torture.places import LIMIT, SECONDS, tell
from tests.system.torture.test_large_answers import BINDS, binds_of_others

pytestmark = [pytest.mark.system, pytest.mark.seconds(LIMIT)]

KINDS: Final = {"flags": "flags", "gates": "gates", "runner": "runners"}
"""What a vertical chooses, and the section of its settings."""
CASES: Final = (
    [("none", "break"), *((kind, how) for kind in KINDS for how in ("hang", "large", "block"))]
    if SECONDS
    else [("all", "block")]
)
CHOSEN: Final = """
[plugins]
enabled = ["sidecar-conformance"]
[policy.verticals.rewards]
{choices}
{sections}
[flag_refresh]
refresh_interval = "500ms"
"""
SHOPPED: Final = '[policy.verticals.shop]\nrunner = "bad"\n'
"""The runner of a sub-agent that is served: `rewards` waits for its promotion."""


def settings_of(kind: str, how: str) -> str:
    """Return settings by which a vertical has the plugin, of one kind or of each."""
    kinds = {"all": tuple(KINDS), "none": ()}.get(kind, (kind,))
    choices = "\n".join(f'{each} = "bad"' for each in kinds if each != "runner")
    sections = "\n".join(f'[{KINDS[each]}.bad]\nplugin = "misbehaving"\nhow = "{how}"' for each in kinds)
    shop = SHOPPED if "runner" in kinds else ""
    return CHOSEN.format(choices=choices, sections=shop + sections)


async def ask_gates(bench: OperatedProcess) -> None:
    """Ask for a step that needs a gate."""
    with suppress(grpc.aio.AioRpcError):  # held, for want of a verdict
        await bench.step("Transition", target_state=reading_pb2.LIFECYCLE_STATE_PROMOTE)


async def ask_runner(client: SidecarClient) -> None:
    """Dispatch a call of the sub-agent whose runner misbehaves."""
    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-1"))
    with suppress(SubagentsError):
        await turn.dispatch_and_wait([ToolCall("call-1", "ask_shop", '{"request": "food"}')])


async def again_and_again(work: Callable[[], Awaitable[None]], counts: dict[str, int], name: str) -> None:
    """Do it until cancelled."""
    while True:
        await work()
        await next_look()
        counts[name] = counts.get(name, 0) + 1


@pytest.mark.parametrize(("kind", "how"), CASES)
async def test_binds_go_on_beside_plugins_that_answer_slowly(kind: str, how: str) -> None:
    """Operators ask for steps and users for answers meanwhile; the flags are fetched by the sidecar itself."""
    counts: dict[str, int] = {}
    with place() as folder:
        async with operated_process(folder, settings_of(kind, how)) as bench, bench.sidecar.client() as client:
            await bench.tested()
            working: Mapping[str, Callable[[], Awaitable[None]]] = {
                "steps": lambda: ask_gates(bench),
                "dispatches": lambda: ask_runner(client),
            }
            tasks = [asyncio.create_task(again_and_again(work, counts, name)) for name, work in working.items()]
            report = await binds_of_others(bench.sidecar)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            state = (await bench.definition()).state
    assert state == reading_pb2.LIFECYCLE_STATE_TEST
    operations, bind = report["operations"], report["latency_us"]["bind"]
    assert (operations["measured"], operations["failed"]) == (BINDS, 0)
    figures = {f"ms {which}": round(bind[which] / 1000, 1) for which in ("p50", "p99", "max")}
    tell(f"binds beside plugins: {kind}, {how}", 0, {**counts, **figures})
