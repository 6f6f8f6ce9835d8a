"""A process with open session lanes stops as one without."""

import asyncio
import signal

import pytest

from subagents_client import TurnRequest
from tests.support.sidecar_process import place, serving

pytestmark = pytest.mark.system


async def test_an_idle_lane_does_not_keep_a_sidecar_from_stopping() -> None:
    """Its client is told, and closes it; what comes after that is refused, and the process ends with 0."""
    with place() as folder:
        async with serving(folder, more="[session]\nenabled = true\n") as sidecar, sidecar.client() as client:
            await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
            lane = await client._wire.lanes.ready()
            assert lane is not None
            sidecar.signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                assert await sidecar.ended() == 0
            assert lane.draining
            assert lane.over
