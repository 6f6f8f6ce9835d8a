"""Starts mutmut with tests that are collected once, so that a mutant costs a fork and its tests.

By itself mutmut starts pytest anew for each mutant, in a fork of one process that has imported everything; that takes
ten times as long as the tests. Here the process that forks has collected the tests, too, and has run none of them: a
thread that a test leaves behind, for instance one of gRPC's, would be missing in each fork, and a mutant whose tests
wait for it would count as killed. The rest is mutmut's.
"""

import gc
import os
from collections.abc import Callable, Iterable
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
from mutmut.workers.isolation import ForkRunner, ForkServerRunner, run_in_fork, run_in_fork_with_result

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

    def run_in_child(self: ForkRunner, operation: Callable[[Any], Any]) -> Any:
        return run_in_fork_with_result(lambda: operation(self.test_runner))

    def exit_code_from_child(self: ForkRunner, operation: Callable[[Any], int]) -> int:
        return int(run_in_fork(lambda: operation(self.test_runner)))

    in_a_child: dict[str, Any] = {"_run_in_child": run_in_child, "_exit_code_from_child": exit_code_from_child}
    for name in ("collect_stats", "run_clean_tests", "run_forced_fail", "list_all_tests"):
        in_a_child[name] = getattr(ForkServerRunner, name)
    for name, method in in_a_child.items():
        setattr(ForkRunner, name, method)
    pluggy.PluginManager.load_setuptools_entrypoints = no_plugin  # type: ignore[method-assign]  # for every manager
    ForkRunner.startup = startup
    PytestRunner.run_tests = run_tests


if __name__ == "__main__":
    quicken()
    cli()
