"""Hands the test files of a run to its workers so that all workers end at about the same time: the longest first.

How long each takes is known from an earlier run (`durations.json`, written where `SIDECAR_RECORD_DURATIONS=1`); a file
that is not listed there is short. A file stays with one worker, because its tests may share what they prepare.
"""

import fcntl
import json
import os
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

RECORD: Final = "SIDECAR_RECORD_DURATIONS"
KEPT: Final = Path(__file__).with_name("durations.json")
SHORT: Final = 1.0
"""Seconds: less than that is not worth a line of the file."""
LONG: Final = 5.0
"""Seconds that nothing of any length should have to wait behind another test."""
TOGETHER: Final = ("tests/architecture/", "tests/requirements/")
"""Folders for one worker as a whole: all of their tests read the same syntax trees."""


@cache
def expected() -> dict[str, float]:
    """Return the seconds that each scope took, those of a second and more."""
    kept: dict[str, float] = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    return kept


def scope_of(node_id: str) -> str:
    """Return what a test is handed out with: its file, or a folder of those that share more."""
    file = node_id.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


class LongestFirst(LoadScopeScheduling):
    """Hands out whole scopes in the order in which the workers have collected them."""

    def __init__(self, config: pytest.Config, log: Producer, seconds: Mapping[str, float]) -> None:
        super().__init__(config, log)
        self._seconds = seconds

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker its next scope.

        A worker has to know its next test before it runs the last one that it has. Behind a long one stands the
        shortest of what is left, so that nothing of any length waits there while another worker has nothing to do.
        """
        if self._seconds_before(node) > LONG:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _seconds_before(self, node: WorkerController) -> float:
        scopes = self.assigned_work[node].items()
        return sum(self._seconds.get(scope, 0) * list(done.values()).count(False) / len(done) for scope, done in scopes)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongestFirst:
    """Pack, however many workers there are."""
    config.option.loadscopereorder = False
    return LongestFirst(config, log, expected())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring the longest scopes to the front, in each worker alike; one process keeps the order of the files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -expected().get(scope_of(item.nodeid), 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write down how long each scope took, where that was asked for."""
    if os.environ.get(RECORD) != "1" or not config.getoption("numprocesses", None):
        return
    took: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took[scope_of(report.nodeid)] += report.duration
    keep(took, config.rootpath)


def keep(took: Mapping[str, float], root: Path, kept: Path = KEPT) -> None:
    """Write down how many seconds scopes took. What did not run keeps its line; parts of a run may end together.

    Args:
        took: seconds by scope.
        root: a scope that is not there any more loses its line.
        kept: the file.
    """
    with kept.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        before: dict[str, float] = json.loads(file.read() or "{}")
        known = {scope: seconds for scope, seconds in before.items() if (root / scope).exists()} | dict(took)
        lines = sorted((-round(seconds, 1), scope) for scope, seconds in known.items() if seconds >= SHORT)
        file.truncate(0)
        file.write(json.dumps({scope: -seconds for seconds, scope in lines}, indent=0) + "\n")
