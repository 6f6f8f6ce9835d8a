"""Flags outside the sidecar's store: a plugin switches them, or an operator does if the backend is read-only."""

from datetime import timedelta
from typing import Final

from msgspec import Struct

from sidecar.core.errors import StoreUnavailable
from sidecar.operations.plugin_calls import PluginCalls, PluginFailed
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
        calls: how it is asked.
        longest: seconds for one switch.
    """

    backend: str
    writer: FlagWriter
    calls: PluginCalls
    longest: float = LONGEST

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Have the plugin switch. Raises `StoreUnavailable`."""
        try:
            await self.calls.ask(f"{self.backend}, switches", self.longest, lambda: self.writer.switch(name, on, by))
        except PluginFailed as failed:
            raise StoreUnavailable(
                f"`{self.backend}` did not switch the flag {name} ({failed})", retry_after=timedelta(seconds=1)
            ) from failed.error

    def edit_for(self, name: str, on: bool) -> str:
        """Return what a person has to do where the plugin cannot, or cannot say."""
        try:
            told: object = self.writer.edit_for(name, on)
        except BaseException:  # noqa: BLE001  the border of a plugin; nothing is awaited, so no cancellation is ours
            told = None
        if isinstance(told, str):
            return told
        return ExternalFlags(self.backend).edit_for(name, on)
