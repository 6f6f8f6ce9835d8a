"""Runs one process of `sidecar dev`, in its own process group, and queues its output line by line."""

import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from sidecar.cli.dev.guardian import end

GRACE: Final = 5.0
"""Seconds that a process gets to end after SIGTERM; it is then killed."""


@dataclass(frozen=True, slots=True)
class ChildOutput:
    """A line of a child's output. `line` None: the child has ended, with the exit code `code`."""

    child: "Child"
    line: str | None
    code: int = 0


class Child:
    """A started process.

    Args:
        name: shown before its lines.
        command: what to run.
        log: the file for its complete output.
        events: the queue that receives its lines and its end, as `ChildOutput`.
        guard: receives `+` with the process group when the process has started, and `-` when it has ended.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        events: "SimpleQueue[object]",
        guard: Callable[[str, int], None],
    ) -> None:
        self.name = name
        self.stopping = False
        self.log = log
        self._guard = guard
        self._process = subprocess.Popen(  # noqa: S603  the repository's own scripts, and the sidecar
            command,
            # Several processes share the terminal, so none of them may read what is typed.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # One stream, so that the lines of both keep their order.
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            # A script may print any bytes.
            errors="replace",
            # Otherwise Ctrl-C in the terminal would reach the process directly, and it would end without the session's
            # order.
            start_new_session=True,
        )
        # At once: if this process is killed before the guardian knows of the child, the child keeps running.
        guard("+", self._process.pid)
        # Started after `+` was sent: the thread sends `-`, which must not come first.
        self._reader = threading.Thread(target=self._read, args=(events,), daemon=True)
        self._reader.start()

    def stop(self) -> None:
        """End the whole group; return when the process has ended."""
        self.stopping = True
        end({self._process.pid}, GRACE)
        # Until the rest of the output is queued. With a limit: a process that left the group may keep the pipe open.
        self._reader.join(GRACE)

    def kill(self) -> None:
        """Kill the whole group immediately."""
        end({self._process.pid}, 0.0)

    def _read(self, events: "SimpleQueue[object]") -> None:
        with self.log.open("a", encoding="utf-8") as log:
            for line in self._process.stdout or ():
                log.write(line)
                # The file is read while the process runs, and must be complete if this process is killed.
                log.flush()
                events.put(ChildOutput(self, line.rstrip("\n")))
        # After the output has ended, so that the last lines come before the end.
        code = self._process.wait()
        # At once: the system may give the same number to another group, which the guardian must not end.
        self._guard("-", self._process.pid)
        events.put(ChildOutput(self, None, code))
