"""One demo, played to its end, for all tests that only look at what it showed."""

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.support.running_demo import running_demo
from tests.support.scraped import dashboard_queries, scraped

CANARY: Final = "canary-of-somebody-else-4711"


@dataclass(frozen=True, slots=True)
class WholeDemo:
    """What a whole demo showed and left.

    Attributes:
        code: its exit code.
        text: what it printed.
        logs: what its processes wrote, by file name.
        left: processes that were still there.
        panels: series that each query of the dashboards found, by query; empty without Prometheus.
    """

    code: int
    text: str
    logs: Mapping[str, str]
    left: Mapping[int, str]
    panels: Mapping[str, int]


@pytest.fixture(scope="session")
def whole_demo(tmp_path_factory: pytest.TempPathFactory) -> WholeDemo:
    """Play it once: of several workers of one run the first who needs it does, and the others wait for that."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return _played(tmp_path_factory.mktemp("demo"))
    kept = tmp_path_factory.getbasetemp().parent / f"demo-{run}.json"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(msgspec.json.encode(_played(tmp_path_factory.mktemp("demo"))))
    return msgspec.json.decode(kept.read_bytes(), type=WholeDemo)


def _played(folder: Path) -> WholeDemo:
    with running_demo({"DEMO_CANARY": CANARY}, "--full", "--folder", str(folder)) as demo:
        demo.read_until("✓ the sidecar")
        with scraped(folder / "sidecar.log", folder / "prometheus") as series_of:
            code = demo.read_to_the_end()
            panels = {} if series_of is None else {query: series_of(query) for query in dashboard_queries()}
        logs = {log.name: log.read_text(encoding="utf-8") for log in folder.glob("*.log")}
        return WholeDemo(code, demo.text, logs, demo.started(), panels)
