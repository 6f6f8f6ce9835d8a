"""A process whose wall clock is wrong."""

import os
from pathlib import Path
from typing import Final

import pytest

LIBRARY: Final = "faketime/libfaketimeMT.so.1"


class FakedTime:
    """The wall clock of a process, as libfaketime shows it; monotonic time goes on as it is."""

    def __init__(self, folder: Path, begin: str = "+0s") -> None:
        found = sorted(Path("/usr/lib").glob(f"*/{LIBRARY}"))
        if not found:
            pytest.skip("missing tool: libfaketime (Debian package faketime)")
        self._file = folder / "time"
        self._file.write_text(f"{begin}\n", encoding="utf-8")
        self.environment = {  # of the process
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def jump(self, to: str) -> None:
        """Let the clock show another time from now on, relative to the right one."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"{to}\n", encoding="utf-8")
        os.replace(beside, self._file)
