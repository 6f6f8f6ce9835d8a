"""Benches for the flag backends that come with the sidecar."""

import json
from pathlib import Path
from typing import ClassVar

from sidecar.adapters.flags_file import FILE_FLAGS
from sidecar.adapters.flags_memory import FlagFault, MemoryFlags
from sidecar.policy.factory import make_flag_backend
from sidecar.policy.protocols import FlagBackend
from sidecar_conformance.flag_bench import FlagBackendBench, SourceFault


class MemoryBench(FlagBackendBench):
    """Every backend that was made has the same flags and faults."""

    faults: ClassVar = {
        SourceFault.NONE: FlagFault.NONE,
        SourceFault.AWAY: FlagFault.RAISE,
        SourceFault.GARBAGE: FlagFault.RAISE,
        SourceFault.HANG: FlagFault.HANG,
    }

    def __init__(self, backend_type: type[MemoryFlags] = MemoryFlags) -> None:
        self._type = backend_type
        self._made: list[MemoryFlags] = []
        self._on: frozenset[str] = frozenset()

    def make(self) -> FlagBackend:
        """Make one on this source."""
        backend = self._type(self._on)
        self._made.append(backend)
        return backend

    async def set_flags(self, on: frozenset[str]) -> None:
        """Write the source."""
        self._on = on
        for backend in self._made:
            backend.replace(on)

    async def misbehave(self, fault: SourceFault) -> None:
        """Spoil or repair the source."""
        for backend in self._made:
            backend.misbehave(self.faults[fault])


class FileBench(FlagBackendBench):
    """A file that is written in place, cut, and taken away; in JSON or TOML by its suffix."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = ""

    def make(self) -> FlagBackend:
        """Make one on this source."""
        return make_flag_backend(FILE_FLAGS, {"path": str(self._path), "poll_seconds": 0.05})

    async def set_flags(self, on: frozenset[str]) -> None:
        """Write the source."""
        flags = dict.fromkeys(sorted(on), True)
        lines = [f"{name} = true" for name in flags]
        toml = "\n".join(["[flags]", *lines, "# end of flags", ""])
        self._text = toml if self._path.suffix == ".toml" else json.dumps({"flags": {**flags, "off": False}})
        self._path.write_text(self._text, encoding="utf-8")

    async def misbehave(self, fault: SourceFault) -> None:
        """Spoil or repair the source."""
        if fault is SourceFault.AWAY:
            self._path.unlink()
        elif fault is SourceFault.GARBAGE:
            self._path.write_text(self._text[: len(self._text) // 2], encoding="utf-8")
        else:
            self._path.write_text(self._text, encoding="utf-8")
