"""The wall clock of the process jumps by an hour, forwards and back, while turns are going on."""

import asyncio
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import TurnEnded
from subagents_client import ClientTimeouts, Outcome, SidecarClient, ToolCall, TurnRequest
from subagents_client.runner import DataUnavailable
from tests.support.requirement import requirement
from tests.support.sidecar_process import place
from tests.system.torture.agents import WAITS, Agents, agents_for
from tests.system.torture.checker import Kept, SqliteFile, compare, over
from tests.system.torture.clients import Told
from tests.system.torture.faked_time import FakedTime
from tests.system.torture.places import client_of, dice, serving, settings_of, verified

pytestmark = pytest.mark.system

CALLS = [
    ToolCall("call-1", "ask_shop", f'{{"request": "{WAITS}"}}'),
    ToolCall("call-2", "ask_rewards", '{"request": "points"}'),
]
JUMPS = ("+3600s", "-3600s", "+0s")
LIFETIME = 6.0
"""Seconds of a turn that nobody ends."""


@requirement("SX-25")
@pytest.mark.seconds(60)
async def test_a_clock_that_jumps_ends_nothing_early_and_nothing_twice() -> None:
    """Turns from before and after each jump are ended by their client; the one that is left, once, by the reaper."""
    told = Told()
    with place() as folder:
        faked = FakedTime(folder)
        lifetime = {"SIDECAR__DISPATCH__TURN_LIFETIME": f"{LIFETIME:.0f}s"}
        kept = SqliteFile(folder / "record" / "record.sqlite")
        async with (
            agents_for(folder, dice(1)) as agents,
            serving(folder, settings_of(folder, folder), **faked.environment, **lifetime) as sidecar,
            client_of(folder, ClientTimeouts()) as client,
        ):
            began = time.monotonic()
            left = await client.bind_turn(_request("left"))
            told.asked["left", "d-1"] = ["call-2"]
            told.hear_outcomes("left", await left.dispatch_and_wait(CALLS[1:], dispatch_id="d-1"))
            for jump in JUMPS:
                await _a_turn_over_a_jump(client, agents, told, partial(faked.jump, jump))
                over_already = {each.turn_id for each in Kept(kept).of(TurnEnded)}
                assert "left" not in over_already or time.monotonic() - began >= LIFETIME
            await over(kept)
            sidecar.signal(signal.SIGTERM)
            assert await sidecar.ended() == 0
        await verified(folder)
        found = compare(told, kept)
        assert (found.lost, found.doubled, found.odd) == ([], [], [])
        times = [each.time for each in Kept(kept).of(ChildEvent)]
        assert max(times) - min(times) > timedelta(hours=1, minutes=30)  # it did jump, both ways
        reasons = {each.turn_id: each.close_reason for each in Kept(kept).of(TurnEnded)}
        assert reasons == {"left": "parent_lost", **dict.fromkeys(told.ends, "ended")}


async def _a_turn_over_a_jump(client: SidecarClient, agents: Agents, told: Told, jump: Callable[[], None]) -> None:
    """Have a turn during which the clock jumps: calls that run, the grant of one of them, and the end are as ever."""
    agents.may_answer.clear()
    turn = await client.bind_turn(_request(f"turn-{agents.started.total()}"))
    told.asked[turn.turn_id, "d-1"] = [each.call_id for each in CALLS]
    listening = asyncio.ensure_future(turn.dispatch_and_wait(CALLS, dispatch_id="d-1"))
    await agents.until_started(agents.started.total() + 2)
    waiting = next(run for run in reversed(agents.runs) if WAITS in run.request)
    jump()
    assert isinstance(await waiting.call_tool("search_offers", {"query": "socks"}), DataUnavailable)
    assert (await turn.dispatch_and_wait([ToolCall("call-1", "ask_nobody")])).outcomes[0].outcome is Outcome.REFUSED
    agents.may_answer.set()
    result = await listening
    assert [each.outcome for each in result.outcomes] == [Outcome.DEGRADED, Outcome.SUCCEEDED]  # no data, as it said
    told.hear_outcomes(turn.turn_id, result)
    told.hear_end(turn.turn_id, "Two answers.", await turn.end("Two answers.", user_message="Hello"))


def _request(turn_id: str) -> TurnRequest:
    return TurnRequest(principal="user-1", episode_id="episode-1", turn_id=turn_id)
