"""Starts mutmut with tests that are collected once, so that a mutant costs a fork and its tests.

By itself mutmut starts pytest anew for each mutant, in a fork of one process that has imported everything; that takes
ten times as long as the tests. Here the process that forks has collected the tests, too. The rest is mutmut's.
"""

import gc
import os
from collections.abc import Iterable
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any

import pluggy
import pytest
from _pytest.config import _prepareconfig
from mutmut.__main__ import cli
from mutmut.configuration import config as settings
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.utils.file_utils import change_cwd
from mutmut.workers.isolation import ForkRunner

KILLED, SURVIVED, SUSPICIOUS = 1, 0, 35
"""Exit codes as mutmut reads them."""


class CollectedTests:
    """The tests of one process, by node id, ready to be run in its forks."""

    def __init__(self, arguments: Iterable[str]) -> None:
        """Collect. What pytest says goes nowhere, and it tells no failure: that would take most of the time."""
        self._failed = False
        with redirect_stdout(Path(os.devnull).open("w", encoding="utf-8")):  # for the life of the process
            config: Any = _prepareconfig(["-s", "-q", "--tb=no", "--rootdir=.", *arguments], plugins=[self])
            config._do_configure()  # noqa: SLF001 - pytest has no other way to collect without running
            session = pytest.Session.from_config(config)
            config.hook.pytest_sessionstart(session=session)
            config.hook.pytest_collection(session=session)
        self._items = {item.nodeid: item for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a failure, in setup and teardown, too."""
        self._failed = self._failed or report.failed

    def run(self, names: Iterable[str]) -> int:
        """Run tests until the first one fails; to be called once, in a fork."""
        items = [self._items[name] for name in names]
        for item, following in pairwise([*items, None]):
            if item is not None:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return KILLED
        return SURVIVED


def no_plugin(*_arguments: object, **_names: object) -> int:
    """Say that no installed plugin was found; pytest would read the metadata of every package."""
    return 0


def quicken() -> None:
    """Let mutmut collect before its first fork, and run what is collected in each."""
    collected: list[CollectedTests] = []

    def startup(_self: ForkRunner) -> None:
        files = {test.partition("::")[0] for tests in state().tests_by_mangled_function_name.values() for test in tests}
        with change_cwd("mutants"):
            collected.append(CollectedTests([*settings().pytest_add_cli_args, *sorted(files)]))
        gc.freeze()

    def run_tests(self: PytestRunner, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        with change_cwd("mutants"):
            if mutant_name is None or not collected:
                return int(self.execute_pytest(["-x", "-q", *(tests or settings().pytest_add_cli_args_test_selection)]))
            try:
                return collected[0].run(tests)
            except BaseException:  # noqa: BLE001 - a fork must end here, and never go on as if it were the parent
                return SUSPICIOUS

    pluggy.PluginManager.load_setuptools_entrypoints = no_plugin  # type: ignore[method-assign]  # for every manager
    ForkRunner.startup = startup
    PytestRunner.run_tests = run_tests


if __name__ == "__main__":
    quicken()
    cli()
