"""Protects the memory of this process from other processes of the same user."""

import sys
from typing import Final

SET_DUMPABLE: Final = 4
"""`PR_SET_DUMPABLE` of prctl(2). A limit of 0 for core files is not enough: it does not hold for a core that the kernel
pipes to a program (`kernel.core_pattern`)."""


def close_memory() -> bool:
    """Disable core files, and refuse debuggers and readers of `mem` and `environ` that lack `CAP_SYS_PTRACE`.

    Afterwards the files of this process in `/proc` belong to root; world-readable files stay readable. Programs that
    this process starts are not protected.

    Returns:
        Whether the call succeeded; True on systems without this call.
    """
    if not sys.platform.startswith("linux"):
        return True
    import ctypes  # noqa: PLC0415  only where it is used

    return bool(ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0) == 0)
