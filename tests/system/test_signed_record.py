"""The record of real processes, verified as an operator does: after a kill and an orderly stop."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from subagents_client import ToolCall, TurnRequest
from subagents_client.runner import Run, RunnerHost
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, SidecarProcess, place, started

pytestmark = pytest.mark.system

KEY = "record/checkpoints/checkpoint.key"


async def verified(folder: Path) -> tuple[int, list[str]]:
    """Run `sidecar verify-log` with the settings of a folder; return exit code and lines."""
    command = [sys.executable, "-m", "sidecar", "verify-log", "--config", str(folder / "sidecar.toml")]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=ROOT
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode().splitlines()


async def a_turn(sidecar: SidecarProcess, number: int) -> None:
    """Have `shop` answer once, and end the turn."""
    async with sidecar.client() as client:
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id=f"episode-{number}"))
        await turn.dispatch_and_wait([ToolCall("call-1", "ask_shop", '{"request": "headphones"}')])
        await turn.end("Two offers fit.")


@requirement("SX-38", "SX-39")
@pytest.mark.seconds(90)
async def test_what_a_killed_sidecar_left_is_signed_by_the_next_one() -> None:
    """A turn, then SIGKILL before any checkpoint; the next one signs for both, and leaves nothing unsigned."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        return "Two offers fit."

    with place() as folder:
        async with host.serving(f"unix:{folder}/shop.sock"):
            async with started(folder) as first:
                await first.event("sidecar.listening")
                await a_turn(first, 1)
                first.signal(signal.SIGKILL)
                await first.ended()
            code, [note, whole] = await verified(folder)
            assert (code, " facts or rows of instance " in note) == (0, True), note
            assert "under 1 running roots" in whole
            async with started(folder) as second:
                await second.event("sidecar.listening")
                await a_turn(second, 2)
                second.signal(signal.SIGTERM)
                assert await second.ended() == 0

        code, lines = await verified(folder)
        assert (code, len(lines)) == (0, 1)
        assert "in 2 turns under 2 running roots" in lines[0]
        assert (folder / KEY).stat().st_mode & 0o777 == 0o600
