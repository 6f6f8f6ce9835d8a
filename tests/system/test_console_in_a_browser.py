"""The console in a real Chromium: by keyboard, on a phone, in both colour schemes, examined by axe.

With `SIDECAR_WRITE_SCREENSHOTS=1` the screenshots of `docs/console.md` are written anew.
"""

import asyncio
import hashlib
import json
import os
import re
import tarfile
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.observability.recorder import MeasuringRecorder
from subagents.lifecycle.v1 import reading_pb2
from tests.architecture.reading import REPOSITORY
from tests.support.chromium import Page, chromium, png_files
from tests.support.console_visits import Visitor, a_console
from tests.support.fake_runner import raises, waits_for
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.sidecar_process import next_look
from tests.support.typescript_package import PACKAGE, needs_node, ran

pytestmark = pytest.mark.system

SCREENSHOTS: Final = REPOSITORY / "docs" / "console"
WRITE: Final = "SIDECAR_WRITE_SCREENSHOTS"
SERIOUS: Final = frozenset({"serious", "critical"})
DESK: Final = (1280, 800)
PHONE: Final = (390, 844)
LOOKS: Final = ((DESK, "light"), (DESK, "dark"), (PHONE, "dark"))
"""Each scheme and each width; no rule of the style depends on both."""
REASON: Final = "RUNNER_FAILED"
"""As the calls that the runner raises in end."""
SLOTS: Final = ("rewards", "shop", "travel")
WITHOUT_POLLS: Final = (
    "document.addEventListener('htmx:beforeRequest', (event) => "
    "{ if (!event.detail.requestConfig.triggeringEvent) event.preventDefault(); })"
)
FOCUSED: Final = "document.activeElement && (document.activeElement.textContent || document.activeElement.id).trim()"


@dataclass(frozen=True, slots=True)
class Desk:
    """A browser whose operator is signed in, and the sidecar."""

    bench: OperatedSidecar
    visitor: Visitor
    page: Page
    recorder: MeasuringRecorder

    async def open(self, path: str) -> None:
        """Open a page of the console; the clock of the sidecar is right then."""
        self.bench.clock.time = datetime.now(UTC)
        await self.page.open(f"{self.visitor.address}{path}")


@asynccontextmanager
async def a_desk() -> AsyncIterator[Desk]:
    """Serve three sub-agents, of which one fails, and sign in as a person does."""
    cards = [gated(slot) for slot in SLOTS]

    def later() -> float:
        return time.monotonic() + skipped.total_seconds()

    skipped = timedelta()
    console = partial(a_console, monotonic=later)
    async with an_operated_sidecar(*cards) as bench, console(bench) as visitor, chromium() as browser:
        bench.clock.time = datetime.now(UTC) - timedelta(minutes=5)
        await served(bench)
        recorder = MeasuringRecorder(bench.metrics)
        await visitor.sign_in(bench.token())
        for number in range(30):
            counted(recorder, 40 + number % 5, failing=3 if number < 20 else 25)
            skipped += timedelta(seconds=28)
            await visitor.get("/now")
        page = await browser.page()
        await page.looks(*DESK, "light")
        await page.open(f"{visitor.address}/")
        await page.evaluate(f"document.getElementById('token').value = {json.dumps(bench.token())}")
        await page.follows(page.evaluate("document.querySelector('form button').click()"))
        yield Desk(bench, visitor, page, recorder)


async def served(bench: OperatedSidecar) -> None:
    """Bring the sub-agents to users, and have some turns."""
    for slot, ramp in zip(SLOTS, (9999, 2500, 500), strict=True):
        for state in (reading_pb2.LIFECYCLE_STATE_TEST, reading_pb2.LIFECYCLE_STATE_PROMOTE):
            await stepped(bench, slot, "Transition", target_state=state)
        await stepped(bench, slot, "SetRamp", ramp_basis_points=ramp)
    inside, _ = await bench.inside_and_outside(2500, "shop")
    bench.sidecar.runner.use("shop", raises(RuntimeError("no")))
    for number in range(3):
        bound = await bench.sidecar.bind(principal=inside, turn_id=f"turn-{number + 1}")
        await bench.sidecar.dispatch(bound, "ask_rewards", "ask_shop")


async def stepped(bench: OperatedSidecar, slot: str, method: str, **fields: Any) -> None:
    """Take a step in a slot."""
    revision = (await bench.status(slot)).revision
    await bench.step(method, slot, header={"slot": slot, "expected_revision": revision}, **fields)


def counted(recorder: MeasuringRecorder, rounds: int, failing: int) -> None:
    """Count calls, as their recorder does; so many of those of `shop` fail."""
    for number in range(rounds):
        for slot, seconds in (("rewards", 0.4), ("travel", 1.2)):
            recorder.call_settled(slot, slot, "active", "succeeded", "")
            recorder.child_settled(slot, "succeeded", 0, seconds)
        outcome, reason = ("failed", REASON) if number < failing else ("succeeded", "")
        recorder.call_settled("shop", "shop", "active", outcome, reason)
        recorder.child_settled("shop", outcome, int(number < failing), 0.3)


async def findings(page: Page, axe: str) -> list[str]:
    """Return what axe finds serious on the page that is open."""
    await page.evaluate(axe)
    found: Sequence[dict[str, Any]] = json.loads(
        await page.evaluate("axe.run().then((all) => JSON.stringify(all.violations))")
    )
    return [
        f"{await page.evaluate('location.pathname')}: {each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in found
        if each["impact"] in SERIOUS
    ]


async def axe_source(folder: Path) -> str:
    """Return axe-core as the lock of the TypeScript client has it; the rest of that lock is not installed."""
    needs_node()
    locked = json.loads((PACKAGE / "package-lock.json").read_text("utf-8"))["packages"]["node_modules/axe-core"]
    packed = folder / (await ran(folder, "npm", "pack", "--silent", f"axe-core@{locked['version']}")).strip()
    algorithm, _, digest = locked["integrity"].partition("-")
    assert b64encode(hashlib.new(algorithm, packed.read_bytes()).digest()).decode() == digest
    with tarfile.open(packed) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode("utf-8")


@pytest.mark.seconds(180)
async def test_no_page_has_a_serious_finding_in_either_scheme_and_none_overflows_a_phone(tmp_path: Path) -> None:
    """Every page at a desk and on a phone; the screenshots of the documents are those that exist here."""
    axe = await axe_source(tmp_path)
    found: list[str] = []
    wide: list[str] = []
    shots: dict[str, bytes] = {}
    async with a_desk() as desk:
        page, digest = desk.page, (await desk.bench.status("shop")).active_digest
        kill = f"/board/shop/step?step=kill&definition=shop&digest={digest}"
        paths = {
            "now": "/now",
            "board": "/board",
            "slot": f"/board/shop?preview=1&digest={digest}&ramp=50",
            "step": kill,
            "configure": kill.replace("kill", "configure"),
            "override": kill.replace("kill", "override"),
            "turns": "/turns?slot=shop&outcome=failed",
            "turn": "/turns/turn-1",
        }
        for name, path in paths.items():
            for (width, height), scheme in LOOKS:
                await page.looks(width, height, scheme)
                await desk.open(path)
                found += await findings(page, axe)
                if await page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                    wide.append(f"{path} at {width}")
                if (width, scheme) in {(DESK[0], "light"), (PHONE[0], "dark")}:
                    kind = "phone" if width == PHONE[0] else "desk"
                    shots[f"{name}-{kind}.png"] = await page.screenshot()
        await page.follows(page.evaluate("document.querySelector('.who button').click()"))
        found += await findings(page, axe)
        said = list(page.console)

    kept = {name: shot for name, shot in shots.items() if name in ON_THE_PAGE}
    if os.environ.get(WRITE) == "1":
        SCREENSHOTS.mkdir(exist_ok=True)
        for name, shot in kept.items():
            (SCREENSHOTS / name).write_bytes(shot)
    assert (found, wide, said) == ([], [], [])
    assert all(shot.startswith(b"\x89PNG") for shot in kept.values())
    assert set(kept) == png_files(SCREENSHOTS)


ON_THE_PAGE: Final = frozenset(
    re.findall(r"\(console/([\w-]+\.png)\)", (REPOSITORY / "docs" / "console.md").read_text(encoding="utf-8"))
)


@pytest.mark.seconds(120)
async def test_an_incident_is_seen_and_ended_by_keyboard_alone() -> None:
    """From a failing slot to its failing turn, and from the board to a kill; the page renews itself meanwhile.

    Then a turn that runs: what happens in it is shown without a poll, and the list of events that is open stays open.
    """
    async with a_desk() as desk:
        page = desk.page
        await desk.open("/now")
        await page.evaluate("document.querySelector('a[id^=why-]').focus()")
        kept = await page.evaluate("document.activeElement.id")
        before = await page.evaluate("document.querySelector('#live .dim').textContent")
        await page.until(f"document.querySelector('#live .dim').textContent !== {json.dumps(before)}")
        after = await page.evaluate("document.activeElement.id")
        await page.follows(page.press("Enter"))
        turns = await page.evaluate("document.querySelector('main table').textContent")
        await desk.open("/board/shop")
        await page.press("Tab")
        first = await page.evaluate(FOCUSED)
        await page.press("Enter")
        await reach(page, "Kill shop")
        await page.follows(page.press("Enter"))
        await page.evaluate("document.getElementById('reason').focus()")
        await page.type("it fails for every user")
        await page.press("Tab")
        await page.press(" ")
        await reach(page, "Kill")
        await page.follows(page.press("Enter"))
        said = await page.evaluate("document.querySelector('[role=status]').textContent")
        state = (await desk.bench.status("shop")).definitions[0].state
        still_open = await open_details_of_a_followed_turn(desk)

    assert still_open == 1
    assert (kept, after) == (kept, kept)
    assert "turn-1" in turns
    assert first == "Skip to the content"
    assert "done: killed" in said
    assert state == reading_pb2.LIFECYCLE_STATE_ROLLBACK


async def open_details_of_a_followed_turn(desk: Desk) -> int:
    """Open the list of events of a running call, let call and turn end, and return how many lists are open then."""
    page, sidecar = desk.page, desk.bench.sidecar
    answered = asyncio.Event()
    sidecar.runner.use("rewards", waits_for(answered))
    bound = await sidecar.bind(principal="user-20", turn_id="turn-9")
    running = asyncio.ensure_future(sidecar.dispatch(bound, "ask_rewards"))
    await sidecar.runner.until_started("rewards")
    await desk.open("/turns/turn-9")
    # The record may not have the turn yet, and the page of an unknown turn does not renew itself.
    while not await page.evaluate("document.querySelector('details[id^=events-]') !== null"):
        await next_look()
        await desk.open("/turns/turn-9")
    await page.evaluate(WITHOUT_POLLS)
    await page.evaluate("document.querySelector('details[id^=events-]').open = true")
    answered.set()
    await running
    await page.until("document.querySelector('details[open] ol').textContent.includes('waiting')")
    await sidecar.end(bound)
    await page.until("document.querySelector('#live strong').textContent === 'ended'")
    return int(await page.evaluate("document.querySelectorAll('details[open]').length"))


async def reach(page: Page, label: str) -> None:
    """Press Tab until an element that begins with this label has the focus."""
    for _ in range(60):
        if (await page.evaluate(FOCUSED) or "").startswith(label):
            return
        await page.press("Tab")
    raise AssertionError(f"Tab does not reach {label}")
