"""A plugin that blocks the event loop of a running sidecar is named in its log, metric and health."""

import time
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.plugins.distributions import SitePackages
from tests.support.sidecar_process import place, started

pytestmark = pytest.mark.system

BLOCKS: Final = """
import asyncio, time
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
        await asyncio.sleep(0)

def made(settings):
    return Blocks(())

@hookimpl
def sidecar_flag_backends():
    return [FlagBackendSpec(name="blocks", contract="flag-backend/1", summary="Blocks", factory=made)]
"""
SETTINGS: Final = '[plugins]\nenabled = ["flags-blocks"]\n[policy.verticals.shop]\nflags = "blocks"\n'


@pytest.mark.seconds(60)
async def test_a_flag_backend_that_blocks_is_named_while_it_does() -> None:
    """The other vertical waits as well, so the log says at once which distribution to take out."""
    with place() as folder:
        site, released = folder / "site", folder / "released"
        site.mkdir()
        SitePackages(site).install("flags-blocks", BLOCKS.format(released=str(released)), entry="blocks")
        async with started(folder, more=SETTINGS, environment={"PYTHONPATH": str(site)}) as sidecar:
            held = await sidecar.event("sidecar.loop_held_up")
            assert (held["level"], held["plugin"]) == ("error", "flags-blocks")
            assert held["frame"].startswith("flags_blocks:")
            assert held["frame"].endswith("Blocks.fetch")

            release(released)
            over = await sidecar.event("sidecar.loop_released")
            assert over["plugin"] == "flags-blocks"
            assert over["seconds"] >= 0.25

            listening = await sidecar.event("sidecar.listening")
            async with httpx.AsyncClient(base_url=f"http://{listening['ops_address']}") as http:
                health, metrics = (await http.get("/readyz")).json(), (await http.get("/metrics")).text
            assert health["event_loop"]["last_held_up"]["plugin"] == "flags-blocks"
            assert 'sidecar_loop_held_up_total{plugin="flags-blocks"} 1' in metrics


def release(file: Path) -> None:
    """Let the plugin go on."""
    file.write_text(str(time.time()))
