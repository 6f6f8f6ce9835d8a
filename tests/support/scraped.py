"""A real Prometheus beside a running sidecar and its watchdog, for tests; and what the dashboards ask it."""

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.sidecar_process import ROOT

DASHBOARDS: Final = ROOT / "examples" / "dashboards"
SECONDS: Final = 120.0
LOOK_EVERY: Final = 0.1
CONFIGURATION: Final = """
global: {{scrape_interval: 300ms, scrape_timeout: 300ms}}
scrape_configs:
  - job_name: sidecar
    static_configs: [{{targets: ["{target}"]}}]
  - job_name: ramp-watchdog
    static_configs: [{{targets: ["{watchdog}"]}}]
"""
VARIABLES: Final = (("$__rate_interval", "1m"), ("$job", ".*"), ("$instance", ".*"), ("$slot", ".*"))
"""As Grafana replaces them when everything is chosen."""


def dashboard_queries() -> Sequence[str]:
    """Return every query of every panel of the dashboards, as Grafana sends it."""
    files = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(DASHBOARDS.glob("*.json"))]
    panels = [panel for file in files for row in file["panels"] for panel in (row, *row.get("panels", []))]
    return [_with_values(target["expr"]) for panel in panels for target in panel.get("targets", [])]


def panel_queries(dashboard: str, title: str) -> Sequence[str]:
    """Return the queries of one panel, over the shortest window that has data at a scrape a second."""
    targets = _panel(dashboard, title)["targets"]
    return [_with_values(target["expr"].replace("$__rate_interval", "10s")) for target in targets]


def panel_unit(dashboard: str, title: str) -> str:
    """Return the unit of one panel, as Grafana names it."""
    return str(_panel(dashboard, title)["fieldConfig"]["defaults"]["unit"])


def _panel(dashboard: str, title: str) -> dict[str, Any]:
    file = json.loads((DASHBOARDS / f"{dashboard}.json").read_text(encoding="utf-8"))
    panels = (each for row in file["panels"] for each in (row, *row.get("panels", [])))
    (panel,) = (each for each in panels if each["title"] == title)
    found: dict[str, Any] = panel
    return found


def _with_values(query: str) -> str:
    for name, value in VARIABLES:
        query = query.replace(name, value)
    return query


@contextmanager
def scraped(log: Path, watchdog: str, folder: Path) -> Iterator[Callable[[str], int] | None]:
    """Scrape the sidecar whose log this is, and the watchdog of ramps.

    Args:
        log: of the sidecar.
        watchdog: IP address and port of the watchdog's metrics.
        folder: of Prometheus; must not exist.

    Returns once both were scraped.

    Yields:
        What asks a query, and returns how many series had a value at any time since the start. None: this machine has
        no Prometheus.
    """
    program = shutil.which("prometheus")
    listening = re.search(r'"ops_address": ?"([^"]+)"', log.read_text(encoding="utf-8"))
    if program is None or listening is None:
        yield None
        return
    folder.mkdir()
    configuration = CONFIGURATION.format(target=listening[1], watchdog=watchdog)
    (folder / "prometheus.yml").write_text(configuration, encoding="utf-8")
    address = free_address()
    began = time.time()
    command = [program, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=error"]
    with subprocess.Popen([*command, f"--web.listen-address={address}"], cwd=folder) as process:
        try:
            with httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=SECONDS) as client:
                _wait_until_both_are_scraped(client, process)
                yield lambda query: _series(client, query, began)
        finally:
            process.terminate()


def _wait_until_both_are_scraped(client: httpx.Client, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and process.poll() is None:
        with suppress(httpx.TransportError):
            answer = client.get("/api/v1/query", params={"query": "sum(up)"})
            # 503 while Prometheus starts.
            if answer.status_code == 200 and [each["value"][1] for each in answer.json()["data"]["result"]] == ["2"]:
                return
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_EVERY)
    raise AssertionError("Prometheus does not scrape the sidecar and the watchdog")


def _series(client: httpx.Client, query: str, began: float) -> int:
    asked = {"query": query, "start": f"{began}", "end": f"{time.time()}", "step": "1"}
    answer = client.get("/api/v1/query_range", params=asked)
    assert answer.status_code == 200, f"{query}: {answer.text}"
    return len(answer.json()["data"]["result"])


def free_address() -> str:
    """Return a loopback address with a port that nothing uses."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{server.getsockname()[1]}"
