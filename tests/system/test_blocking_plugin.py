"""A plugin that blocks its thread delays no other, and is named in log and metric."""

from typing import Final

import pytest

from subagents_client import TurnRequest
from tests.plugins.distributions import SitePackages
from tests.support.sidecar_process import place, started

pytestmark = pytest.mark.system

BLOCKS: Final = """
import pathlib, time
from sidecar.adapters.flags_memory import MemoryFlags
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import FlagBackendSpec

class Blocks(MemoryFlags):
    fetches = 0

    async def fetch(self):
        self.fetches += 1
        while self.fetches > 1 and not pathlib.Path({released!r}).exists():
            time.sleep(0.01)
        return await super().fetch()

    async def changed(self):
        pass

def made(settings):
    return Blocks(())

@hookimpl
def sidecar_flag_backends():
    return [FlagBackendSpec(name="blocks", contract="flag-backend/1", summary="Blocks", factory=made)]
"""
SETTINGS: Final = """
[plugins]
enabled = ["flags-blocks"]
[policy.verticals.shop]
flags = "blocks"
"""


@pytest.mark.seconds(60)
async def test_a_flag_backend_that_blocks_is_named_while_others_are_served() -> None:
    """A bind is answered while it blocks, and a stop does not wait for it."""
    with place() as folder:
        site, released = folder / "site", folder / "released"
        site.mkdir()
        SitePackages(site).install("flags-blocks", BLOCKS.format(released=str(released)), entry="blocks")
        async with started(folder, more=SETTINGS, environment={"PYTHONPATH": str(site)}) as sidecar:
            blocked = await sidecar.event("sidecar.anomaly", lambda one: one["kind"] == "plugin_blocked")
            assert blocked["message"].startswith("flag-backend blocks blocks its thread at flags_blocks:")
            assert "Blocks.fetch" in blocked["message"]

            async with sidecar.client() as client:
                turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-1"))
            assert "ask_support" in [tool.name for tool in turn.surface.sub_agent_tools]

            await sidecar.metrics_show('sidecar_anomalies_total{kind="plugin_blocked"} 1.0')
            held_up = [one for one in sidecar.events if one["event"] == "sidecar.loop_held_up"]
            assert [one for one in held_up if "flags_blocks" in str(one)] == []
        assert not released.exists()
