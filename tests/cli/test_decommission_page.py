"""The worked example of `docs/decommission.md`: its commands are typed, and what the page shows is what comes out.

`WRITE_PAGE=1` writes what comes out into the page.
"""

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.core.rollout.states import LifecycleState
from tests.support.checkouts import a_repository, applied
from tests.support.config_repository import ConfigRepository
from tests.support.decommissions import loaded
from tests.support.operator_desk import Desk, typed
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.sidecar_process import ROOT

PAGE: Final = ROOT / "docs" / "decommission.md"
BLOCK: Final = re.compile(r"```(console|diff)\n(.*?)```", re.DOTALL)


async def test_the_page_shows_what_the_commands_print(tmp_path: Path) -> None:
    """From begin to a step that is not done yet, and what is overdue 91 days later."""
    page = PAGE.read_text()
    repository = a_repository(tmp_path / "config")
    catalogue = load_directory(repository.root).catalogue
    assert catalogue is not None
    cards = [card for card in catalogue.cards.values() if not card.definition.is_orchestrator]
    async with an_operated_sidecar(*cards) as bench:
        await loaded(bench, catalogue)
        await bench.put(bench.facts(LifecycleState.ROLLBACK))
        shown = await _played(page, bench, repository)

    if os.environ.get("WRITE_PAGE"):
        PAGE.write_text(shown)
    assert page == shown


async def _played(page: str, bench: OperatedSidecar, repository: ConfigRepository) -> str:
    """Return the page with the output of its commands as it really is; where it says git, the patch is merged."""
    played, at, diff = [], 0, ""
    for found in BLOCK.finditer(page):
        lines = [found[1] + "\n"]
        if found[1] == "diff":
            lines.append(diff)
        for command in re.findall(r"^\$ (.*)$", found[2], re.MULTILINE) if found[1] == "console" else ():
            lines.append(f"$ {command}\n")
            if command.startswith("git "):
                diff = (repository.folder.parent / "shop.patch").read_text()
                applied(repository, diff, "shop goes")
                catalogue = load_directory(repository.root).catalogue
                assert catalogue is not None
                await loaded(bench, catalogue)
                continue
            if " overdue" in command:
                bench.clock.time += timedelta(days=91)
            lines.append(await _typed(command, bench, repository.folder.parent))
        played += [page[at : found.start()], "```", *lines, "```"]
        at = found.end()
    return "".join((*played, page[at:]))


async def _typed(command: str, bench: OperatedSidecar, folder: Path) -> str:
    words = [word[1] or word[2] for word in re.finditer(r'"([^"]*)"|(\S+)', command)]
    assert words[:2] == ["sidecar", "subagent"]
    with _inside(folder):
        _, out = await asyncio.to_thread(typed, *words[2:], "--target", Desk(bench).target, token=bench.token())
    return re.sub(
        r"request id cli-[0-9a-f-]+; if the answer is lost, repeat with: --request-id cli-[0-9a-f-]+",
        "request id cli-…; if the answer is lost, repeat with: --request-id cli-…",
        out,
    )


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder for a moment; nothing else of this process looks at where it is meanwhile."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
