"""The flag backend `memory`: flags from the settings, which a program in the same process can switch.

For demos, tests and deployments without a flag service.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, unique
from typing import Any, Final

from sidecar.core.errors import StoreUnavailable
from sidecar.policy.protocols import FlagReport
from sidecar.policy.specs import FlagBackendSpec


@unique
class FlagFault(Enum):
    """A fault of the backend, which tests and simulations choose."""

    NONE = "none"
    HANG = "hang"
    """A fetch does not return until the fault is removed."""
    RAISE = "raise"
    """A fetch raises `ConnectionError`."""
    GARBAGE = "garbage"
    """A fetch returns an object that is no report."""


class MemoryFlags:
    """A flag backend whose flags are set by method calls.

    Args:
        on: names of the flags that are on at the start.
    """

    def __init__(self, on: Iterable[str] = ()) -> None:
        # `_known` never loses a name: a fetch reports known flags that are off, to distinguish them from unknown ones.
        self._on = self._known = frozenset(on)
        self._revision = 1
        self._fetched = 0
        self._fault = FlagFault.NONE
        self._wake = asyncio.Event()

    def set(self, name: str, *, on: bool) -> None:
        """Switch one flag."""
        self._known |= {name}
        self.replace(self._on | {name} if on else self._on - {name})

    def replace(self, on: Iterable[str]) -> None:
        """Switch all flags at once: those in `on` are on, all others are off."""
        self._on = frozenset(on)
        self._known |= self._on
        self._revision += 1
        self._wake.set()

    def is_on(self, name: str) -> bool:
        """Return whether a flag is on now."""
        return name in self._on

    def misbehave(self, fault: FlagFault) -> None:
        """Choose the fault of all later fetches. `FlagFault.NONE` ends it."""
        self._fault = fault
        # Wakes a fetch that hangs, so that it notices the end of its fault.
        self._wake.set()

    async def fetch(self) -> FlagReport:
        """Return the flags, or behave as the configured fault."""
        # A loop, because each change of a flag sets the event, and only the end of the fault may end the wait.
        while self._fault is FlagFault.HANG:
            self._wake.clear()
            await self._wake.wait()
        if self._fault is FlagFault.RAISE:
            raise ConnectionError("the flag backend `memory` was told to fail")
        if self._fault is FlagFault.GARBAGE:
            garbage: Any = {"on": "everything"}
            return garbage  # type: ignore[no-any-return]  # the fault is a wrong type
        # Set only if the fetch succeeds: `changed` must return for a change that no fetch has reported.
        self._fetched = self._revision
        return FlagReport(self._on, f"memory-{self._revision}", self._known - self._on)

    async def changed(self) -> None:
        """Return once the flags differ from the last fetch."""
        while self._fetched == self._revision:
            self._wake.clear()
            await self._wake.wait()

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _create(settings: Mapping[str, Any]) -> MemoryFlags:
    return MemoryFlags(settings.get("on", ()))


MEMORY_FLAGS: Final = FlagBackendSpec(
    name="memory",
    contract="flag-backend/1",
    summary="A fixed set of flags from the settings; nothing outside is asked",
    config_schema={
        "type": "object",
        "properties": {
            "on": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "description": "Names of the flags that are on; every other flag is off.",
            }
        },
        "additionalProperties": False,
    },
    capabilities=frozenset({"push"}),
    factory=_create,
)


def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
    """Offer `memory`."""
    return [MEMORY_FLAGS]


class MemoryFlagWriter:
    """The `FlagWriter` for flags that are lost when the process stops; for demos and tests."""

    def __init__(self, flags: MemoryFlags) -> None:
        self._flags = flags

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Switch a flag. Has no effect if the flag already has this state."""
        # The revision must stay the same then: otherwise `changed` would return although no flag differs.
        if self._flags.is_on(name) != on:
            self._flags.set(name, on=on)

    def edit_for(self, name: str, on: bool) -> str:
        """Return nothing, because `switch` makes the change."""
        return ""


class FlagsInTheSettings:
    """The `FlagWriter` for flags from the settings, used if the record is kept in a database. It refuses each switch.

    A switch would be lost at the next start. A kill flag that reverts to off would look as if an operator had switched
    it off, and would kill its definition.
    """

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Raise `StoreUnavailable`: an operator must edit the settings."""
        raise StoreUnavailable(f"the flags of `memory` are those of the settings; {self.edit_for(name, on)}")

    def edit_for(self, name: str, on: bool) -> str:
        """Return the required edit."""
        change = f"add {name} to" if on else f"take {name} out of"
        return f"settings: {change} flags.memory.on, and start the sidecar again; or use the backend `embedded`"
