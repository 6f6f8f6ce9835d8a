"""Skips say which tool is missing, and can be forbidden.

A machine without buildah or root may run the tests: those that need it are skipped by name and listed at the end.
Where everything is installed (`.ci/run`), `SIDECAR_SKIPS_FAIL=1` turns each skip into a failure, so that a test cannot
vanish unseen.
"""

import os
import shutil
from collections.abc import Generator
from typing import Final

import pytest

SKIPS_FAIL: Final = "SIDECAR_SKIPS_FAIL"


def needs_tool(tool: str, *, package: str | None = None) -> str:
    """Return the path of a program, or skip the test with the name of what is missing.

    Args:
        tool: the program, looked up in PATH.
        package: the Debian package that brings it, if it is named differently.
    """
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"missing tool: {tool} (Debian package {package or tool})")
    return found


def needs_root(why: str = "chroot isolation needs it") -> None:
    """Skip the test unless it runs as root."""
    if os.geteuid() != 0:
        pytest.skip(f"missing right: root ({why})")


def skips_fail() -> bool:
    """Whether this run treats a skip as a failure."""
    return os.environ.get(SKIPS_FAIL) == "1"


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a skipped test was skipped."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one where skips are forbidden."""
    report = yield
    if report.skipped and skips_fail() and not hasattr(report, "wasxfail"):
        report.longrepr = f"skipped, and {SKIPS_FAIL}=1 forbids it: {reason_of(report)}"
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a skipped module into a failed one where skips are forbidden."""
    report = yield
    if report.skipped and skips_fail():
        report.longrepr = f"skipped, and {SKIPS_FAIL}=1 forbids it: {reason_of(report)}"
        report.outcome = "failed"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what was not run, by what was missing."""
    reports: list[pytest.TestReport] = terminalreporter.getreports("skipped")
    if not reports:
        return
    terminalreporter.section("not run on this machine")
    by_reason: dict[str, list[str]] = {}
    for report in reports:
        by_reason.setdefault(reason_of(report), []).append(report.nodeid)
    for reason, tests in sorted(by_reason.items()):
        terminalreporter.write_line(f"{reason}: {len(tests)} test(s)")
        for test in tests:
            terminalreporter.write_line(f"    {test}")
