"""What `/proc` shows of a process: the memory in which the kernel put arguments and variables when it started.

Who looks for processes finds them by their command line, or by a mark in their environment. A copy shows those of its
server, unless it writes its own in their place. The server is started with room for them.
"""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.fork_server.asking import Asked

FILLER: Final = "-" * 4096
"""An argument of the server: as much room for arguments as there is at least."""
FILLED: Final = "FORK_SERVER_ROOM"
"""A variable of the server."""
FILLER_OF_VARIABLES: Final = "-" * 32768
FIRST: Final = 45
"""Where `/proc/<pid>/stat` has the four addresses, counted behind the name of the program."""


@dataclass(frozen=True, slots=True)
class Room:
    """Where they are, as addresses, and how many bytes there is room for."""

    arguments_at: int
    arguments: int
    variables_at: int
    variables: int


def own_room() -> Room:
    """Return that of this process."""
    fields = Path("/proc/self/stat").read_text("ascii").rpartition(")")[2].split()
    begin, end, first, last = map(int, fields[FIRST : FIRST + 4])
    return Room(begin, end - begin, first, last - first)


def in_memory(asked: Asked) -> tuple[bytes, bytes]:
    """Return the arguments and the variables as the kernel would have put them."""
    variables = [f"{name}={value}" for name, value in asked.environment.items()]
    return _joined(asked.command), _joined(variables)


def show(asked: Asked, room: Room) -> None:
    """Show this process as what it was asked to be; nothing may use the memory any more: `os.environ` is set anew."""
    arguments, variables = in_memory(asked)
    ctypes.memmove(room.arguments_at, arguments.ljust(room.arguments, b"\0"), room.arguments)
    ctypes.memmove(room.variables_at, variables.ljust(room.variables, b"\0"), room.variables)


def _joined(texts: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(text) + b"\0" for text in texts)
