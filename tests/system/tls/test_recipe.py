"""`docs/tls.md` works as it is written: its commands, its settings and its client."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sidecar.composition.running import running_sidecar
from sidecar.settings import read_settings
from subagents_client import SidecarClient, TlsFiles, TurnRequest
from subagents_client.runner import RunnerHost
from tests.support.authority import Authority
from tests.support.sidecar_process import PATIENT, place, settings_file

PAGE: Final = (Path(__file__).parents[3] / "docs" / "tls.md").read_text("utf-8")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


def first_block(kind: str) -> str:
    """Return the first block of a kind under "Try it"."""
    section = PAGE.partition("## Try it")[2].partition("\n## ")[0]
    text: str = re.findall(rf"```{kind}\n(.*?)```", section, flags=re.DOTALL)[0]
    return text


async def test_the_recipe_leads_to_a_bound_turn(folder: Path) -> None:
    """The certificates of the commands, with the settings and the client of the page; the port is any free one."""
    script = ["sh", "-eu", "-c", first_block("sh")]
    await asyncio.to_thread(subprocess.run, script, cwd=folder, check=True, capture_output=True, timeout=300)
    text = first_block("toml").replace('"tls/', f'"{folder}/tls/').replace("127.0.0.1:7443", "127.0.0.1:0")
    async with running_sidecar(read_settings(settings_file(folder, text), {})) as sidecar:
        address = sidecar.readiness.detail()["tls"]["addresses"]["dispatch"]
        scope: dict[str, object] = {}
        exec(first_block("python").replace('Path("tls/', f'Path("{folder}/tls/'), scope)
        mine = scope["MINE"]
        assert isinstance(mine, TlsFiles)
        target = f"dns:{address.replace('127.0.0.1', 'localhost')}"
        async with SidecarClient.connect_over_tls(target, mine, timeouts=PATIENT) as client:
            turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-1"))
            assert turn.surface.sub_agent_tools
            await turn.end("done")


async def test_the_host_of_the_page_takes_the_certificates(folder: Path) -> None:
    """It serves over TLS with the files of a Kubernetes secret."""
    issued = Authority().issue("shop.example.org")
    for name, content in (("ca.crt", issued.authority), ("tls.crt", issued.certificate), ("tls.key", issued.key)):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o400)
    text = PAGE.partition("## Runner hosts")[2].partition("```python\n")[2].partition("```")[0]
    scope: dict[str, object] = {}
    exec(text.replace("/etc/tls/", f"{folder}/"), scope)
    host = scope["host"]
    assert isinstance(host, RunnerHost)
    async with host.serving("127.0.0.1:0") as address:
        assert address.startswith("127.0.0.1:")
