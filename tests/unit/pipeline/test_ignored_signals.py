"""Tests stop processes by signals, also where the run itself was started with these signals ignored."""

import subprocess
import sys

import pytest

from scripts.run_parts import ROOT

IN_A_TEST = "import signal, conftest; print(signal.getsignal(signal.SIG{name}) is signal.SIG_IGN)"
LIMIT_SECONDS = 60


@pytest.mark.parametrize("name", ["INT", "HUP", "QUIT", "TERM"])
def test_a_signal_that_the_shell_ignores_is_not_ignored_by_tests(name: str) -> None:
    """`nohup make test` ignores SIGHUP, and a script's `make test &` SIGINT and SIGQUIT; children would inherit it."""
    shell = f"trap '' {name}; exec \"$@\""
    asked = ["sh", "-c", shell, "sh", sys.executable, "-c", IN_A_TEST.format(name=name)]
    answer = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)

    assert answer.stdout == "False\n"
