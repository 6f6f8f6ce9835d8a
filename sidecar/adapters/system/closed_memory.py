"""Closes the memory of this process to others of the same user."""

import sys
from typing import Final

SET_DUMPABLE: Final = 4
"""`PR_SET_DUMPABLE` of prctl(2). A limit of 0 for core files is not enough: it does not hold for a core that the kernel
pipes to a program (`kernel.core_pattern`)."""


def close_memory() -> bool:
    """Have no core written, and refuse debuggers and readers of `mem` and `environ` that lack `CAP_SYS_PTRACE`.

    The entries of this process in the file system of processes belong to root from here on. The process itself, and
    every user, still reads those that all may read. A program that this process starts is open again.

    Returns:
        Whether it worked; True where the system has no such call.
    """
    if not sys.platform.startswith("linux"):
        return True
    import ctypes  # noqa: PLC0415  only where it is used

    return bool(ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0) == 0)
