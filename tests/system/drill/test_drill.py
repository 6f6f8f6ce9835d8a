"""The person on call sees each incident by its alert, on a panel and on the console, and ends it with one action.

`make test` plays three incidents, without a browser. `make torture` plays all of them in front of a real Chromium; with
`SIDECAR_WRITE_SCREENSHOTS=1` it writes the screenshots of `docs/drill.md` anew. `SIDECAR_DRILL=full-disk,clock-skew`
plays only these.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import pytest

from tests.support.chromium import Page, chromium, png_files
from tests.support.postgres import PostgresServer
from tests.support.requirement import requirement
from tests.system.drill.incidents import INCIDENTS, Incident
from tests.system.drill.page import DOCUMENT, SCREENSHOTS, page
from tests.system.drill.playing import DESK, play
from tests.system.drill.stage import Stage, a_stage
from tests.system.torture.places import strikes

pytestmark = pytest.mark.system

COUNT: Final = strikes("DRILL", 3)
ALL: Final = len(INCIDENTS) <= COUNT
LARGEST: Final = 100 * 1024
"""Bytes of a screenshot."""


@requirement("PF1-D-51", "PF1-D-63")
@pytest.mark.seconds(300 + 150 * COUNT)
async def test_each_incident_shows_and_ends_with_one_action(postgres: PostgresServer) -> None:
    """Alert, panel and page say nothing before it and show it meanwhile; the alert ends after the action."""
    sizes: dict[str, int] = {}
    async with AsyncExitStack() as opened:
        stage = await opened.enter_async_context(a_stage(postgres, whole=ALL))
        browser = await _signed_in(stage, opened) if ALL else None
        for incident in _chosen():
            seen = await play(stage, incident, browser)
            sys.stdout.write(f"drill: {seen.name}, alert after {seen.shown:.0f} s, ended after {seen.ended:.0f} s\n")
            if seen.screenshot is not None:
                sizes[seen.name] = len(seen.screenshot)
                _keep(seen.name, seen.screenshot)
    assert {name for name, size in sizes.items() if size > LARGEST} == set()


def _chosen() -> Sequence[Incident]:
    """Return the incidents to play: those that are named, or the first ones."""
    by_name = {each.name: each for each in INCIDENTS}
    named = filter(None, os.environ.get("SIDECAR_DRILL", "").split(","))
    return [by_name[name] for name in named] or INCIDENTS[:COUNT]


def _keep(name: str, screenshot: bytes) -> None:
    """Write a screenshot of the page, if the run is to do so."""
    if os.environ.get("SIDECAR_WRITE_SCREENSHOTS") == "1":
        SCREENSHOTS.mkdir(exist_ok=True)
        (SCREENSHOTS / f"{name}.png").write_bytes(screenshot)


async def _signed_in(stage: Stage, opened: AsyncExitStack) -> Page:
    """Return a tab in which the operator is signed in."""
    browser = await (await opened.enter_async_context(chromium())).page()
    await browser.looks(*DESK, "light")
    await browser.open(f"{stage.console.address}/")
    await browser.evaluate(f"document.getElementById('token').value = {json.dumps(stage.operator.role_token())}")
    await browser.follows(browser.evaluate("document.querySelector('form button').click()"))
    return browser


def test_the_page_of_the_drill_is_what_it_plays() -> None:
    """`python -m tests.system.drill.page` was run after the last change, and each incident has its screenshot."""
    assert DOCUMENT.read_text(encoding="utf-8") == page()
    assert png_files(SCREENSHOTS) == {f"{each.name}.png" for each in INCIDENTS}
