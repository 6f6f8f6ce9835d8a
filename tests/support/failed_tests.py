"""Writes the ids of the failed tests of a run into the file that `SIDECAR_FAILED_TESTS` names.

`scripts/run_parts.py` reads it, to run a few of them again.
"""

import os
from pathlib import Path
from typing import Final

import pytest

FAILED_TESTS: Final = "SIDECAR_FAILED_TESTS"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write one id to a line; only in the process that hears of all tests, which is none of the workers."""
    file = os.environ.get(FAILED_TESTS, "")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not file or hasattr(session.config, "workerinput") or reporter is None:
        return
    reports = (*reporter.stats.get("failed", ()), *reporter.stats.get("error", ()))
    tests = dict.fromkeys(report.nodeid for report in reports)
    if tests:
        Path(file).write_text("\n".join(tests), encoding="utf-8")
