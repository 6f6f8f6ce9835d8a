"""The bench of the flag backend suite, which controls the source that a backend reads."""

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
    """The source is unavailable."""
    GARBAGE = "garbage"
    """The source sends a response that is no list of flags, e.g. a truncated one."""
    HANG = "hang"
    """The source accepts requests and never answers. Ability `hang`."""


class FlagBackendBench(ABC):
    """A source of flags, and backends that read it. Plugin authors subclass it.

    Attributes:
        secrets: texts in the backend's settings that must not appear in any output.
    """

    secrets: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the source while the block runs; other methods are called inside. Override it to start a source."""
        yield

    @abstractmethod
    def make(self) -> FlagBackend:
        """Return a new backend that reads this bench's source."""

    @abstractmethod
    async def set_flags(self, on: frozenset[str]) -> None:
        """Turn exactly these flags on at the source. Before the first call, all flags are off."""

    @abstractmethod
    async def misbehave(self, fault: SourceFault) -> None:
        """Set how the source misbehaves from now on; `NONE` ends the misbehaviour."""
