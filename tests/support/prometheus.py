"""A real Prometheus server with the alert rules, which scrapes a sidecar process.

async with scraping(needs_tool("prometheus"), sidecar, tmp_path) as server:
    await server.until("sidecar_ready == 1")
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.operated_process import free_port
from tests.support.plain_http import plain_client
from tests.support.sidecar_process import ROOT, SidecarProcess, next_look

ALERTS: Final = ROOT / "examples" / "alerts"
WAIT_SECONDS: Final = 30.0
CONFIGURATION: Final = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: sidecar
    static_configs: [{{targets: ["{target}"]}}]
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

    async def until(self, expression: str) -> list[dict[str, Any]]:
        """Ask again and again until an expression gives something."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (found := await self.query(expression)):
                await next_look()
        return found


@asynccontextmanager
async def scraping(prometheus: str, sidecar: SidecarProcess, folder: Path) -> AsyncIterator[Server]:
    """Run a server with the rules on a free port of the loopback; it is stopped at the end."""
    listening = await sidecar.event("sidecar.listening")
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
        async with plain_client(base_url=f"http://127.0.0.1:{port}") as client:
            yield Server(client, process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
