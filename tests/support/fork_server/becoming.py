"""A copy becomes the process that was asked for: all that a new interpreter would have found is set."""

import fcntl
import importlib
import io
import os
import sys
from collections.abc import Sequence

from tests.support.fork_server.asking import Asked
from tests.support.fork_server.refusals import module_path
from tests.support.fork_server.shown import Room, show


def become(asked: Asked, files: Sequence[int], room: Room) -> None:
    """Take on what was asked for.

    Args:
        asked: the process.
        files: descriptors of the three standard streams and of what is passed; they are closed.
        room: for what `/proc` shows.
    """
    if asked.new_session:
        os.setsid()
    elif asked.group is not None:
        os.setpgid(0, asked.group)
    _number(files, [0, 1, 2, *asked.passed])
    os.chdir(asked.folder)
    os.environ.clear()
    os.environ.update(asked.environment)
    show(asked, room)
    _open_streams(unbuffered=bool(asked.environment.get("PYTHONUNBUFFERED")))
    sys.argv = ["-m", *asked.arguments]  # `runpy` puts the module's file in front
    sys.orig_argv = list(asked.command)
    added = module_path(asked.environment)
    sys.path[:] = [asked.folder, *added, *(folder for folder in sys.path[1:] if folder not in added)]
    importlib.invalidate_caches()
    sys.modules.pop(asked.module, None)  # it may be imported, but has to run


def _number(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Give open files the numbers under which they are expected; some of these may still be the number of another."""
    above = max(*files, *numbers) + 1
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in files]
    for each in files:
        os.close(each)
    for each, number in zip(moved, numbers, strict=True):
        os.dup2(each, number)
        os.close(each)


def _open_streams(*, unbuffered: bool) -> None:
    """Open Python's three streams as its start does: a terminal line by line, errors at once."""
    reader = io.BufferedReader(_raw(0, "r"))
    stdin = io.TextIOWrapper(reader, sys.stdin.encoding, sys.stdin.errors, write_through=unbuffered)
    sys.stdin = sys.__stdin__ = stdin  # type: ignore[misc]  # declared final: a new start has new streams
    for number, name in ((1, "stdout"), (2, "stderr")):
        before, raw = getattr(sys, name), _raw(number, "w")
        stream = io.TextIOWrapper(
            raw if unbuffered else io.BufferedWriter(raw),
            before.encoding,
            before.errors,
            line_buffering=not unbuffered and (number == 2 or raw.isatty()),
            write_through=unbuffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _raw(number: int, mode: str) -> io.FileIO:
    raw = io.FileIO(number, mode, closefd=False)
    raw.name = f"<{('stdin', 'stdout', 'stderr')[number]}>"
    return raw
