"""The memory of a process is closed to others; a process with real users is in `test_users_of_hosts`."""

import asyncio
import sys
from typing import Final

import pytest

pytestmark = pytest.mark.system

GET_DUMPABLE: Final = 3
"""`PR_GET_DUMPABLE` of prctl(2)."""
CLOSES: Final = f"""
import ctypes
from sidecar.adapters.system.closed_memory import close_memory
before = ctypes.CDLL(None).prctl({GET_DUMPABLE}, 0, 0, 0, 0)
print(before, close_memory(), ctypes.CDLL(None).prctl({GET_DUMPABLE}, 0, 0, 0, 0))
"""


async def test_a_process_closes_its_memory() -> None:
    """The kernel refuses debuggers and readers of its memory then, and has no core written."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", CLOSES, stdout=-1)
    out, _ = await process.communicate()
    assert out.split() == [b"1", b"True", b"0"]
