"""Switches flags in memory."""

from sidecar.adapters.flags_memory.backend import MemoryFlags
from sidecar.core.errors import StoreUnavailable


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


class FlagsInTheSettings:
    """In the place of a writer where the record outlives the process: forgotten flags would look like fallen ones."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Raise `StoreUnavailable`: a person has to."""
        raise StoreUnavailable(f"the flags of `memory` are those of the settings; {self.edit_for(name, on)}")

    def edit_for(self, name: str, on: bool) -> str:
        """Return what has to be done."""
        change = f"add {name} to" if on else f"take {name} out of"
        return f"settings: {change} flags.memory.on, and start the sidecar again; or use the backend `embedded`"
