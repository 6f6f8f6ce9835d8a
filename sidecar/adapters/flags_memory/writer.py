"""Switches flags in memory."""

from sidecar.adapters.flags_memory.backend import MemoryFlags


class MemoryFlagWriter:
    """A writer of the flags of one process, which are gone when it stops; for demos and tests."""

    def __init__(self, flags: MemoryFlags) -> None:
        """Keep the flags."""
        self._flags = flags

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Set a flag."""
        if self._flags.is_on(name) != on:
            self._flags.set(name, on=on)

    def edit_for(self, name: str, on: bool) -> str:
        """Return nothing: `switch` does it."""
        return ""
