"""Plays one incident: nothing shows before, everything shows meanwhile, one action, nothing shows after."""

import asyncio
import html
import re
from dataclasses import dataclass
from typing import Final

from tests.support.chromium import Page
from tests.support.scraped import panel_queries
from tests.support.sidecar_process import next_look
from tests.system.drill.incidents import Incident
from tests.system.drill.stage import Stage

SECONDS: Final = 300.0
"""For an alert to fire, or to end: the longest window is 20 seconds, and the machine may be busy."""
LOOKS: Final = 300
"""At a page, five a second, until it shows what it should."""
TAG: Final = re.compile(r"<[^>]*>")
DESK: Final = (1200, 700)


@dataclass(frozen=True, slots=True)
class Seen:
    """What an incident showed.

    Attributes:
        screenshot: None without a browser.
        shown, ended: seconds from the incident to the alert, and from the action to its end.
    """

    name: str
    screenshot: bytes | None
    shown: float
    ended: float


async def play(stage: Stage, incident: Incident, browser: Page | None = None) -> Seen:
    """Play an incident; raises if anything does not show, or does not end."""
    firing = f'ALERTS{{alertstate="firing", alertname="{incident.alert}"}}'
    await stage.prometheus.until(f"absent({firing})", SECONDS)  # on a machine that is busy, the record is slow as it is
    now = asyncio.get_running_loop().time
    await incident.plant(stage)
    planted = now()
    await stage.prometheus.until(firing, SECONDS)
    shown = now() - planted
    dashboard, title, level = incident.panel
    for query in panel_queries(dashboard, title):
        await stage.prometheus.until(f"({query}) {level}", SECONDS)
    await _shown(stage, incident)
    screenshot = None
    if browser is not None:
        await browser.open(f"{stage.console.address}{incident.page}")
        screenshot = await browser.screenshot(incident.part)
    await incident.act(stage)
    acted = now()
    await stage.prometheus.until(f"absent({firing})", SECONDS)
    return Seen(incident.name, screenshot, shown, now() - acted)


async def _shown(stage: Stage, incident: Incident) -> None:
    """Look at the page of the console until it shows the incident."""
    words = ""
    for _ in range(LOOKS):
        words = " ".join(html.unescape(TAG.sub(" ", (await stage.console.get(incident.page)).text)).split())
        if re.search(incident.shows, words):
            return
        await next_look()
    raise AssertionError(f"{incident.page} does not show {incident.shows!r}: {words}")
