"""Flags outside the sidecar's store: a plugin switches them, or an operator if the backend is read-only.

Flags of the embedded backend are switched in the transaction of a step. A switch elsewhere cannot be part of one, so
it may fail or stay unknown; the operator then learns what to do by hand.
"""

from datetime import timedelta
from typing import Final

from msgspec import Struct

from sidecar.core.errors import StoreUnavailable
from sidecar.operations.plugin_calls import PluginCalls, PluginFailed
from sidecar.policy.protocols import FlagWriter

LONGEST: Final = 2.0
"""Seconds for one switch."""


class ExternalFlags(Struct, frozen=True):
    """The writer of a read-only backend.

    Attributes:
        backend: name of the flag backend.
    """

    backend: str

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Raise `StoreUnavailable`: the backend cannot be written."""
        raise StoreUnavailable(f"the sidecar does not write the flags of `{self.backend}`; {self.edit_for(name, on)}")

    def edit_for(self, name: str, on: bool) -> str:
        """Return what an operator must do, and where."""
        return f"{self.backend}: switch {name} {'on' if on else 'off'}"


class FlagsOfPlugin(Struct, frozen=True):
    """The boundary to a backend that can switch flags. An exception or a hang affects only the requested flag.

    Attributes:
        backend: name of the flag backend.
        calls: calls the plugin.
        longest: seconds for one switch.
    """

    backend: str
    writer: FlagWriter
    calls: PluginCalls
    longest: float = LONGEST

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Let the plugin switch the flag. Raises `StoreUnavailable`."""
        try:
            # A name of its own for the limit of abandoned calls: hanging switches must not stop the fetches of flags.
            await self.calls.ask(f"{self.backend}, switches", self.longest, lambda: self.writer.switch(name, on, by))
        except PluginFailed as failed:
            raise StoreUnavailable(
                f"`{self.backend}` did not switch the flag {name} ({failed})", retry_after=timedelta(seconds=1)
            ) from failed.error

    def edit_for(self, name: str, on: bool) -> str:
        """Return what an operator must do if the plugin cannot switch the flag, or cannot tell."""
        try:
            # A plugin without types may return anything; only a text is shown to the operator.
            edit: object = self.writer.edit_for(name, on)
        except BaseException:  # noqa: BLE001  the border of a plugin; nothing is awaited, so no cancellation is ours
            edit = None
        if isinstance(edit, str):
            return edit
        return ExternalFlags(self.backend).edit_for(name, on)
