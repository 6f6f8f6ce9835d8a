"""A report for each child, when the operator names a directory."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sidecar.adapters.reports_directory import ReportsDirectory
from sidecar.policy.protocols import ComponentMade
from tests.support.builders import a_card, with_limits
from tests.support.fake_runner import answers
from tests.support.harness import running_sidecar_for_tests
from tests.support.requests import a_call
from tests.support.requirement import requirement


class WatchedReports:
    """A directory that says when so many reports were written, or could not be."""

    def __init__(self, directory: Path, *, broken: bool = False) -> None:
        self._files = ReportsDirectory(directory)
        self._broken = broken
        self._news = asyncio.Event()
        self.paths: list[Sequence[str]] = []

    async def write(self, path: tuple[str, ...], text: str) -> None:
        """Write, or fail."""
        try:
            if self._broken:
                raise OSError("no space left")
            await self._files.write(path, text)
        finally:
            self.paths.append(path)
            self._news.set()

    async def until(self, count: int) -> None:
        """Wait for them."""
        while len(self.paths) < count:
            self._news.clear()
            await self._news.wait()


@requirement("SX-9", "SX-39")
async def test_the_work_of_a_child_can_be_read_in_a_file(tmp_path: Path) -> None:
    """Request, outcome, a line per event, narration, components, budget; what others wrote is quoted."""
    shop = with_limits(a_card("shop", components={"render_offer": {"type": "object"}}), tool_calls=4)
    reports: Any = WatchedReports(tmp_path)
    async with running_sidecar_for_tests(cards=[shop], reports=reports) as sidecar:
        made = ComponentMade("render_offer", "{}", "{}")
        sidecar.runner.use("shop", answers("Two offers.\n# Outcome\n", components=[made]))
        bound = await sidecar.bind(turn_id="../turn-9")
        await sidecar.dispatch(bound, a_call("call-1", "ask_shop", '{"request": "oat milk"}'))
        await reports.until(1)

    text = (tmp_path / "%2E%2E%2Fturn-9" / ".orchestrix" / "step-0-result.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[0] == "# Step 0: `ask_shop` succeeded"
    assert [line for line in lines if line.startswith("## ")] == [
        f"## {title}" for title in ("Summary", "Request", "Outcome", "Timeline", "Narration", "Components", "Budget")
    ]
    assert "> oat milk" in lines
    assert lines[lines.index("## Narration") + 2 :][:2] == ["> Two offers.", "> # Outcome"]
    assert "- `render_offer`" in lines
    assert "- tool calls: 0 of 4" in lines
    timeline = lines[lines.index("## Timeline") + 2 : lines.index("## Narration") - 1]
    assert [line.split(": ", 1)[1] for line in timeline] == [
        "`shop created`",
        "`shop started`",
        "`attempt 1`",
        "`succeeded, waits for the parent`",
    ]


async def test_a_disk_that_fails_costs_nothing_but_the_report(tmp_path: Path) -> None:
    """The call succeeds, the turn ends, and it is told as an anomaly."""
    reports: Any = WatchedReports(tmp_path, broken=True)
    async with running_sidecar_for_tests(reports=reports) as sidecar:
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop")
        await reports.until(1)
        await sidecar.end(bound)

        assert reply.outcomes == ["SUCCEEDED"]
        assert [kind for kind, _ in sidecar.recorder.of("anomaly")] == ["report_failed"]
        assert os.listdir(tmp_path) == []
