"""A real Prometheus server with the alert rules, which scrapes a sidecar process.

async with scraping(needs_tool("prometheus"), sidecar, tmp_path) as server:
    await server.until("sidecar_ready == 1")
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.operated_process import free_port
from tests.support.plain_http import plain_client
from tests.support.sidecar_process import ROOT, SidecarProcess, next_look

ALERTS: Final = ROOT / "examples" / "alerts"
RULES: Final = ALERTS / "sidecar.rules.yml"
WAIT_SECONDS: Final = 120.0
CONFIGURATION: Final = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: sidecar
    static_configs: [{{targets: [{targets}]}}]
"""


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

    async def until(self, expression: str, seconds: float = WAIT_SECONDS) -> list[dict[str, Any]]:
        """Ask again and again until an expression gives something."""
        async with asyncio.timeout(seconds):
            while not (found := await self.query(expression)):
                await next_look()
        return found


@asynccontextmanager
async def scraping(prometheus: str, sidecar: SidecarProcess, folder: Path) -> AsyncIterator[Server]:
    """Run a server with the rules on a free port of the loopback; it is stopped at the end."""
    listening = await sidecar.event("sidecar.listening")
    async with scraping_all(prometheus, [listening["ops_address"]], RULES, folder) as server:
        yield server


@asynccontextmanager
async def scraping_all(prometheus: str, targets: Sequence[str], rules: Path, folder: Path) -> AsyncIterator[Server]:
    """Run a server that scrapes some addresses and evaluates a file of rules."""
    configuration = folder / "prometheus.yml"
    quoted = ", ".join(f'"{each}"' for each in targets)
    configuration.write_text(CONFIGURATION.format(rules=rules, targets=quoted))
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
        async with plain_client(base_url=f"http://127.0.0.1:{port}") as client:
            yield Server(client, process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
