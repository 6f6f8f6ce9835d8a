"""`python -m examples.demo` as a process, with a mark in its environment by which everything it started is found."""

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

REPOSITORY: Final = Path(__file__).parents[2]
MARK: Final = "DEMO_TEST_MARK"
PLAIN: Final = {"DEMO_ORCHESTRATOR": "plain"}
"""What `make demo` runs; where the tests run, LangChain is installed, which would be taken otherwise."""
READABLE: Final[Mapping[str, str]] = {} if os.geteuid() == 0 else {"SIDECAR__SERVER__ALLOW_DEBUGGING": "true"}
"""Lets another user than root find the mark in the environment of the sidecar."""
SECONDS: Final = 300.0
"""For anything the demo is waited for."""
GONE_SECONDS: Final = 120.0
"""For all that it started to end."""


@dataclass(slots=True)
class RunningDemo:
    """A demo that runs; `lines` is what it has printed so far."""

    process: "subprocess.Popen[str]"
    output: IO[str]
    mark: str
    lines: list[str] = field(default_factory=list)

    def read_until(self, text: str) -> None:
        """Read its output up to a line that has `text`."""
        for line in self.output:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return
        raise AssertionError(f"the demo ended without saying {text!r}:\n{self.text}")

    def read_to_the_end(self) -> int:
        """Read everything it prints until it has ended; return its exit code."""
        self.lines += [line.rstrip("\n") for line in self.output]
        return self.process.wait(SECONDS)

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return "\n".join(self.lines)

    def started(self) -> Mapping[int, str]:
        """Return every process that carries the mark, by id, with its command line: the demo and all it started."""
        return {pid: _command(pid) for pid in _marked(self.mark)}

    def left_when_gone(self) -> Mapping[int, str]:
        """Wait until every process with the mark has ended, at most `GONE_SECONDS`; return those that have not."""
        until = time.monotonic() + GONE_SECONDS
        for pid in _marked(self.mark):
            _wait_for_end(pid, max(0.0, until - time.monotonic()))
        return self.started()


@contextmanager
def running_demo(environment: Mapping[str, str], *arguments: str, typed: str | None = None) -> Iterator[RunningDemo]:
    """Run the demo without pauses; whatever it leaves is killed at the end, so that a red test leaves nothing.

    Args:
        environment: added to the environment; without `DEMO_ORCHESTRATOR` the assistant is the example's own loop.
        arguments: of the demo.
        typed: given to it through a pipe, which is closed then; None: nothing to read.
    """
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.demo", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "DEMO_PACE": "0", "PYTHONUNBUFFERED": "1", **PLAIN, **READABLE, **environment, MARK: mark},
        stdin=subprocess.DEVNULL if typed is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    assert process.stdout is not None
    if typed is not None and process.stdin is not None:
        process.stdin.write(typed)
        process.stdin.close()
    try:
        with process.stdout:
            yield RunningDemo(process, process.stdout, mark)
    finally:
        for pid in _marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(SECONDS)


@contextmanager
def demo_at_a_terminal(environment: Mapping[str, str]) -> Iterator[tuple[RunningDemo, int]]:
    """Run the demo at a terminal of its own, in which Ctrl-C and Ctrl-D mean what they mean to a person.

    Yields:
        The demo, and a descriptor: what is written to it is typed.
    """
    mark = uuid.uuid4().hex
    keyboard, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.demo_of_a_terminal"],
        cwd=REPOSITORY,
        env={**os.environ, "DEMO_PACE": "0", "TERM": "xterm", **PLAIN, **READABLE, **environment, MARK: mark},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        text=True,
    )
    os.close(terminal)
    try:
        with open(keyboard, encoding="utf-8", errors="replace", closefd=True) as output:
            yield RunningDemo(process, output, mark), keyboard
    finally:
        for pid in _marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(SECONDS)


def _marked(mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in _ids() if wanted in _read(pid, "environ").split(b"\0")]


def _ids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _command(pid: int) -> str:
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def _wait_for_end(pid: int, seconds: float) -> None:
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            select.select([handle], [], [], seconds)
        finally:
            os.close(handle)
