"""The bench of the gate client suite, which controls the gate service that a client asks."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, unique

from sidecar.policy.lifecycle import GateClient, GateQuestion, Verdict


@unique
class GateFault(Enum):
    """How the gate misbehaves."""

    NONE = "none"
    AWAY = "away"
    """The gate service is unavailable."""
    GARBAGE = "garbage"
    """The gate service sends a malformed response."""
    UNKNOWN_VERDICT = "unknown_verdict"
    """The gate service sends an unknown verdict."""
    OTHER_DIGEST = "other_digest"
    """The gate has passed another version of the definition, but not this one."""
    OTHER_STEP = "other_step"
    """The gate has passed another step, but not this one."""
    EXPIRED = "expired"
    """The gate has passed, but the verdict has expired. Ability `expiry`."""
    HANG = "hang"
    """The gate service accepts questions and never answers. Ability `hang`."""


class GateClientBench(ABC):
    """A gate service, and clients that ask it. Plugin authors subclass it.

    Attributes:
        secrets: texts in the client's settings that must not appear in any output.
    """

    secrets: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the service while the block runs; other methods are called inside. Override it to start a service."""
        yield

    @abstractmethod
    def make(self) -> GateClient:
        """Return a new client."""

    @abstractmethod
    async def decide(self, question: GateQuestion, verdict: Verdict) -> None:
        """Set the verdict of the gate for exactly this question, and for no other."""

    @abstractmethod
    async def misbehave(self, fault: GateFault) -> None:
        """Set how the service misbehaves from now on, for questions with a verdict; `NONE` ends the misbehaviour."""
