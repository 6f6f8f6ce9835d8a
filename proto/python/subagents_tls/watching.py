"""Files that belong together, read again when they change."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

LOOK_SECONDS: Final = 1.0
"""Least time between two looks at the files."""
ATTEMPTS: Final = 3
"""Reads of files that change while they are read."""

Content = TypeVar("Content")
Stamp = tuple[tuple[int, int, int, int], ...]
"""Of each file: times of its content and of its mode and owner, size, inode."""


class FilesProblem(ValueError):
    """Files cannot be used; says which and why, and nothing of their content."""


class FileWatch(Generic[Content]):
    """Follows files. What cannot be used is reported once and changes nothing: the last good content stays in use.

    Thread-safe. There is no task and no thread: a call of `current` looks at the files, at most once a second.

    Args:
        paths: what is followed.
        read: reads all of them for the given time, counted from 1; raises `FilesProblem`.
        kept: names what stays in use after a problem.
        report: told why new files are not used; must not raise.
        monotonic: a clock.

    Raises:
        FilesProblem: they cannot be used.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        read: Callable[[int], Content],
        kept: str,
        report: Callable[[str], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problem = ""
        self.number = 1
        self._paths = paths
        self._read = read
        self._kept = kept
        self._report = report
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen, self._content = self._read_whole(1)
        self._next_look = monotonic() + LOOK_SECONDS

    def current(self) -> Content:
        """Return what is to be used now."""
        if self._monotonic() >= self._next_look:
            with self._lock:
                if self._monotonic() >= self._next_look:
                    self._next_look = self._monotonic() + LOOK_SECONDS
                    self._look()
        return self._content

    def _look(self) -> None:
        before, self._seen = self._seen, ()  # files that cannot be looked at are read as soon as they can
        try:
            self._seen = _stamp(self._paths)  # kept even if they cannot be used: they are read when they change again
            if self._seen != before:
                self._seen, self._content = self._read_whole(self.number + 1)
                self.number += 1
                self.problem = ""
        except FilesProblem as problem:
            self._tell(f"{problem}; the former {self._kept} stay in use")

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self._report(problem)

    def _read_whole(self, number: int) -> tuple[Stamp, Content]:
        """Read all files as they were at one time: certificate and key are replaced one after the other."""
        problem: FilesProblem | None = None
        for _ in range(ATTEMPTS):
            before = _stamp(self._paths)
            try:
                content = self._read(number)
                problem = None
            except FilesProblem as found:
                problem = found
            if _stamp(self._paths) == before:
                if problem is not None:
                    raise problem
                return before, content
        raise problem or FilesProblem(f"{self._paths[0]} and the files beside it change while they are read")


def _stamp(paths: Sequence[Path]) -> Stamp:
    try:
        found = [each.stat() for each in paths]
    except OSError as error:
        raise FilesProblem(f"{error.filename} cannot be read: {error.strerror}") from None
    return tuple((each.st_mtime_ns, each.st_ctime_ns, each.st_size, each.st_ino) for each in found)
