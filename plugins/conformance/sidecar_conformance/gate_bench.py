"""How the gate client suite drives the place that a client asks."""

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
    """It cannot be reached, or is not there."""
    GARBAGE = "garbage"
    """It answers, and what it says is no answer."""
    UNKNOWN_VERDICT = "unknown_verdict"
    """It answers with a verdict that there is not."""
    OTHER_DIGEST = "other_digest"
    """It has passed another content of the definition, and not this one."""
    OTHER_STEP = "other_step"
    """It has passed another step, and not this one."""
    EXPIRED = "expired"
    """It has passed, and that holds no more. Ability `expiry`."""
    HANG = "hang"
    """It takes the question and never answers. Ability `hang`."""


class GateClientBench(ABC):
    """A place where gates are decided, and clients that ask it. A plugin's author writes one.

    Attributes:
        secrets: strings from the client's settings that must not show anywhere.
    """

    secrets: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the place there; all else happens inside. Override it if something must be started."""
        yield

    @abstractmethod
    def make(self) -> GateClient:
        """Return a new client."""

    @abstractmethod
    async def decide(self, question: GateQuestion, verdict: Verdict) -> None:
        """Let the gate decide so about exactly this question. Nothing else is decided by it."""

    @abstractmethod
    async def misbehave(self, fault: GateFault) -> None:
        """Let the place misbehave so from now on, about what was decided; or no more."""
