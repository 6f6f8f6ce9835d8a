"""How the flag backend suite drives the source that a backend reads."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, unique

from sidecar.policy.protocols import FlagBackend


@unique
class SourceFault(Enum):
    """How the source misbehaves."""

    NONE = "none"
    AWAY = "away"
    """It cannot be reached, or is not there."""
    GARBAGE = "garbage"
    """It answers with something that is not flags, e.g. half of them."""
    HANG = "hang"
    """It takes the question and never answers. Ability `hang`."""


class FlagBackendBench(ABC):
    """A source of flags, and backends that read it. A plugin's author writes one.

    Attributes:
        secrets: strings from the backend's settings that must not show anywhere.
    """

    secrets: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the source there; all else happens inside. Override it if something must be started."""
        yield

    @abstractmethod
    def make(self) -> FlagBackend:
        """Return a new backend that reads this bench's source."""

    @abstractmethod
    async def set_flags(self, on: frozenset[str]) -> None:
        """Let exactly these flags be on at the source. Before the first call, none is."""

    @abstractmethod
    async def misbehave(self, fault: SourceFault) -> None:
        """Let the source misbehave so from now on, or no more."""
