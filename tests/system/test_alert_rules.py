"""The alert rules, run by a real Prometheus server that scrapes a real sidecar."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from examples.ccs.faults import FaultKind
from tests.support.named_skips import needs_tool
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT
from tests.support.telemetry_chain import TelemetryChain, telemetry_chain

pytestmark = pytest.mark.system

ALERTS: Final = ROOT / "examples" / "alerts"
WAIT_SECONDS: Final = 30.0
CONFIGURATION: Final = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: sidecar
    static_configs: [{{targets: ["{target}"]}}]
"""


@pytest.mark.parametrize("what", [("check", "rules", "sidecar.rules.yml"), ("test", "rules", "sidecar.rules.test.yml")])
def test_the_rules_are_right_by_themselves(what: tuple[str, ...]) -> None:
    """Well-formed, and each fires and stays silent as its cases say, under both spellings of the names."""
    promtool = needs_tool("promtool", package="prometheus")
    ran = subprocess.run([promtool, *what], cwd=ALERTS, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@requirement("PC2-OBS-6", "PC2-NFR-4b", "PC2-AC-6b")
@pytest.mark.seconds(120)
async def test_the_very_first_mismatch_ever_fires_the_alert(tmp_path: Path) -> None:
    """Nothing fires before; a wrong envelope comes, and the next evaluations fire for it, and for nothing else."""
    prometheus = needs_tool("prometheus")
    async with telemetry_chain("") as chain, scraping(prometheus, chain, tmp_path) as server:
        await server.until("ps6_envelope_principal_mismatch_total == 0")
        await chain.turn(1, "ask_shop")
        await server.until("sidecar_turn_ended_total == 1")
        assert await server.query("ALERTS") == []

        chain.ccs.fault(FaultKind.WRONG_PRINCIPAL, answer_as="user-other")
        await chain.turn(2, "ask_shop")

        fired = await server.until('ALERTS{alertstate="firing", alertname="EnvelopeForAnotherUser"}')
        assert [one["metric"]["consumer"] for one in fired] == ["consumer-agent"]
        others = await server.query('ALERTS{alertstate="firing", severity="page"}')
        names = {one["metric"]["alertname"] for one in others}
        assert names <= {"EnvelopeForAnotherUser", "SecurityIncident"}


class Server:
    """A running Prometheus."""

    def __init__(self, client: httpx.AsyncClient, process: asyncio.subprocess.Process) -> None:
        self._client = client
        self._process = process

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that an expression gives now; none while the server does not answer."""
        assert self._process.returncode is None, "the server has ended"
        try:
            answer = await self._client.get("/api/v1/query", params={"query": expression})
        except httpx.TransportError:
            return []
        return list(answer.json()["data"]["result"]) if answer.status_code == 200 else []

    async def until(self, expression: str) -> list[dict[str, Any]]:
        """Ask again and again until an expression gives something."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (found := await self.query(expression)):
                await _next_look()
        return found


async def _next_look() -> None:
    """Let a moment pass: the server tells nobody of an evaluation, it can only be asked."""
    moment = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, moment.set)
    await moment.wait()


@asynccontextmanager
async def scraping(prometheus: str, chain: TelemetryChain, folder: Path) -> AsyncIterator[Server]:
    """Run a server with the rules on a free port of the loopback; it is stopped at the end."""
    listening = await chain.sidecar.event("sidecar.listening")
    configuration = folder / "prometheus.yml"
    configuration.write_text(CONFIGURATION.format(rules=ALERTS / "sidecar.rules.yml", target=listening["ops_address"]))
    port = await free_port()
    process = await asyncio.create_subprocess_exec(
        prometheus,
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        cwd=folder,
    )
    try:
        async with httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}") as client:
            yield Server(client, process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def free_port() -> int:
    """Return a port of the loopback that nobody holds: Prometheus does not say which one it took."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
    return port
