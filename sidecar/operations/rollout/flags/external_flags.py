"""Flags outside the sidecar's store: a plugin switches them, or an operator does if the backend is read-only."""

import asyncio
from datetime import timedelta
from typing import Final

from msgspec import Struct

from sidecar.core.errors import StoreUnavailable
from sidecar.policy.protocols import FlagWriter

LONGEST: Final = 2.0
"""Seconds for one switch."""


class ExternalFlags(Struct, frozen=True):
    """In the place of a writer.

    Attributes:
        backend: name of the flag backend.
    """

    backend: str

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Raise `StoreUnavailable`: the backend offers no writing."""
        raise StoreUnavailable(f"the sidecar does not write the flags of `{self.backend}`; {self.edit_for(name, on)}")

    def edit_for(self, name: str, on: bool) -> str:
        """Return what has to be done, and where."""
        return f"{self.backend}: switch {name} {'on' if on else 'off'}"


class FlagsOfPlugin(Struct, frozen=True):
    """The border around a backend that switches its flags: whatever it raises, or a hang, is that flag's failure only.

    Attributes:
        backend: name of the flag backend.
    """

    backend: str
    writer: FlagWriter

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Have the plugin switch. Raises `StoreUnavailable`."""
        try:
            async with asyncio.timeout(LONGEST):
                await self.writer.switch(name, on, by)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # out of a task the last two would end the process
            raise StoreUnavailable(
                f"`{self.backend}` did not switch the flag {name} ({type(error).__name__})",
                retry_after=timedelta(seconds=1),
            ) from error

    def edit_for(self, name: str, on: bool) -> str:
        """Return what a person has to do where the plugin cannot, or cannot say."""
        try:
            return self.writer.edit_for(name, on)
        except (Exception, SystemExit, KeyboardInterrupt):  # noqa: BLE001  the border of a plugin
            return ExternalFlags(self.backend).edit_for(name, on)
