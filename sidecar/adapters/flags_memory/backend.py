"""Flags in memory, with switches that make every fault of a flag backend on demand."""

import asyncio
from collections.abc import Iterable
from enum import Enum, unique
from typing import Any

from sidecar.policy.protocols import FlagReport


@unique
class FlagFault(Enum):
    """How the backend misbehaves, for tests and simulation."""

    NONE = "none"
    HANG = "hang"
    """A fetch never answers until the fault is taken away."""
    RAISE = "raise"
    GARBAGE = "garbage"
    """A fetch answers with something that is no report."""


class MemoryFlags:
    """A settable flag backend.

    Args:
        on: names of the flags that are on from the start.
    """

    def __init__(self, on: Iterable[str] = ()) -> None:
        self._on = self._known = frozenset(on)
        self._revision = 1
        self._fetched = 0
        self._fault = FlagFault.NONE
        self._moved = asyncio.Event()

    def set(self, name: str, *, on: bool) -> None:
        """Switch one flag."""
        self._known |= {name}
        self.replace(self._on | {name} if on else self._on - {name})

    def replace(self, on: Iterable[str]) -> None:
        """Switch all flags at once: these are on, all others off."""
        self._on = frozenset(on)
        self._known |= self._on
        self._revision += 1
        self._moved.set()

    def is_on(self, name: str) -> bool:
        """Say whether a flag is on now."""
        return name in self._on

    def misbehave(self, fault: FlagFault) -> None:
        """Begin to misbehave so, or stop with `FlagFault.NONE`."""
        self._fault = fault
        self._moved.set()

    async def fetch(self) -> FlagReport:
        """Return the flags, or do what the fault says."""
        while self._fault is FlagFault.HANG:
            self._moved.clear()
            await self._moved.wait()
        if self._fault is FlagFault.RAISE:
            raise ConnectionError("the flag backend `memory` was told to fail")
        if self._fault is FlagFault.GARBAGE:
            garbage: Any = {"on": "everything"}
            return garbage  # type: ignore[no-any-return]  # the fault is a wrong type
        self._fetched = self._revision
        return FlagReport(self._on, f"memory-{self._revision}", self._known - self._on)

    async def changed(self) -> None:
        """Return once the flags differ from what was fetched last."""
        while self._fetched == self._revision:
            self._moved.clear()
            await self._moved.wait()

    async def close(self) -> None:
        """Do nothing: memory holds no connection."""
