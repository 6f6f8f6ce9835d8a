"""One demo, played to its end, for all tests that only look at what it showed."""

import fcntl
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import pytest

from tests.support.running_demo import RunningDemo, running_demo
from tests.support.scraped import dashboard_queries, free_address, scraped
from tests.support.watched_ramps import watched_ramps

STARTED: Final = re.compile(r"✓ (.+?) +pid (\d+)")
CANARY: Final = "canary-of-somebody-else-4711"
PACE: Final = "0.25"
"""Each pause lasts longer than a scrape interval: a rate needs a sample before a call and one after it."""


@dataclass(frozen=True, slots=True)
class WholeDemo:
    """What a whole demo showed and left.

    Attributes:
        code: its exit code.
        text: what it printed.
        logs: what its processes wrote, by file name.
        left: processes that were still there.
        users: user ids of its processes, by the name that it shows.
        panels: series that each query of the dashboards found, by query; empty without Prometheus.
    """

    code: int
    text: str
    logs: Mapping[str, str]
    left: Mapping[int, str]
    users: Mapping[str, int]
    panels: Mapping[str, int]


@pytest.fixture(scope="session")
def whole_demo(tmp_path_factory: pytest.TempPathFactory) -> WholeDemo:
    """Play it once: of several workers of one run the first who needs it does, and the others wait for that."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return _played()
    kept = tmp_path_factory.getbasetemp().parent / f"demo-{run}.json"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(msgspec.json.encode(_played()))
    return msgspec.json.decode(kept.read_bytes(), type=WholeDemo)


def _played() -> WholeDemo:
    # Not in a folder of pytest: users of runner hosts could not enter it.
    with (
        TemporaryDirectory(prefix="demo-") as made,
        running_demo({"DEMO_CANARY": CANARY, "DEMO_PACE": PACE}, "--full", "--folder", made) as demo,
    ):
        folder = Path(made)
        demo.read_until("✓ the sidecar")
        users = {name: _user_of(pid) for name, pid in STARTED.findall(demo.text)}
        watchdog = free_address()
        with (
            _halted(demo) as go_on,
            watched_ramps(folder, watchdog),
            scraped(folder / "sidecar.log", watchdog, folder / "prometheus") as series_of,
        ):
            go_on()
            code = demo.read_to_the_end()
            panels = {} if series_of is None else {query: series_of(query) for query in dashboard_queries()}
        logs = {log.name: log.read_text(encoding="utf-8") for log in folder.glob("*.log")}
        return WholeDemo(code, demo.text, logs, demo.started(), users, panels)


@contextmanager
def _halted(demo: RunningDemo) -> Iterator[Callable[[], None]]:
    """Halt what plays the demo, so that it shows nothing before Prometheus sees it. Yields what lets it go on."""
    demo.process.send_signal(signal.SIGSTOP)
    try:
        yield lambda: demo.process.send_signal(signal.SIGCONT)
    finally:
        demo.process.send_signal(signal.SIGCONT)


def _user_of(pid: str) -> int:
    found = re.search(r"^Uid:\t(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1])
