"""Starts the process that examines a plugin (`examination.py`), limits it, and returns its report and its exit."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Final

from sidecar.core.decoding import DecodeError, from_json

MODULE: Final = "sidecar.cli.plugins.examination"
LONGEST_OUTPUT: Final = 400
"""The most bytes of a plugin's output that are shown."""
MOST_LINES: Final = 1000
"""The most lines of a report that are read: a plugin could write into it without end."""


@dataclass(frozen=True, slots=True)
class ExaminationResult:
    """The result of one child process.

    Attributes:
        lines: the lines of its report, in order.
        ended: exit code; negative: the signal that ended it; None: it exceeded its time limit and was stopped.
        printed: the beginning of what the plugin wrote to standard output.
    """

    lines: tuple[Mapping[str, Any], ...]
    ended: int | None
    printed: str

    @property
    def done(self) -> bool:
        """Whether the examination was completed."""
        return any("done" in line for line in self.lines)

    @property
    def step(self) -> str:
        """The last step that was started, as a participle: the plugin was being e.g. `imported`."""
        steps = [str(line["step"]) for line in self.lines if "step" in line]
        return steps[-1] if steps else "examined"


def examined(label: str, settings: Mapping[str, Any], seconds: float) -> ExaminationResult:
    """Examine one entry point in a child process. Takes at most `seconds`.

    Args:
        label: `distribution:entry-point`.
        settings: settings of plugins, by kind and name. They are passed through a pipe and never printed.
        seconds: after this time the child and all its processes are killed.
    """
    # Through standard input: other users can read the arguments of a process, and settings may contain secrets.
    question = json.dumps({"label": label, "settings": settings, "path": sys.path}).encode() + b"\n"
    # Files and not pipes: a child that writes without end must not block, and must not fill this process's memory.
    with tempfile.TemporaryFile() as report, tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", MODULE, str(report.fileno())]
        child = subprocess.Popen(  # noqa: S603  our own module, by our own interpreter
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            # Warnings of libraries are no finding; an error of the plugin is in the report.
            stderr=subprocess.DEVNULL,
            pass_fds=(report.fileno(),),
            # A process group of its own, so that `_kill` reaches every process that the plugin starts.
            start_new_session=True,
        )
        ended: int | None = None
        try:
            with suppress(subprocess.TimeoutExpired):
                child.communicate(question, timeout=seconds)
                # Stays None after a timeout, which `suppress` ends silently.
                ended = child.returncode
        finally:
            _kill(child)
        return ExaminationResult(tuple(_lines(report)), ended, _beginning(output))


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the child, if it runs, and the processes that it started."""
    with suppress(ProcessLookupError, PermissionError):
        # The whole group, also after a normal end: the plugin may have started processes.
        os.killpg(child.pid, signal.SIGKILL)
    # Otherwise it would stay a zombie, and its number occupied.
    child.wait()


def _lines(report: IO[bytes]) -> Iterator[Mapping[str, Any]]:
    """Return the complete lines. A plugin that writes into its report can damage only its own row."""
    report.seek(0)
    for _, raw in zip(range(MOST_LINES), report, strict=False):
        with suppress(DecodeError):
            line = from_json(raw)
            if isinstance(line, dict):
                yield line


def _beginning(output: IO[bytes]) -> str:
    output.seek(0)
    return " ".join(output.read(LONGEST_OUTPUT).decode("utf-8", "replace").split())
