"""What the service answers, by gate and sub-agent: the right verdicts, and every way to be wrong."""

import asyncio
from enum import StrEnum, unique
from typing import Final

import msgspec


@unique
class Behaviour(StrEnum):
    """What is done with a question."""

    PASS = "pass"  # noqa: S105  a verdict, no secret
    FAIL = "fail"
    PENDING = "pending"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    """HTTP status 500."""
    HANG = "hang"
    """No answer until the switches change, which the connection hardly outlives."""
    SLOW = "slow"
    """`pass`, after `delay_seconds` or when the switches change."""
    DROP = "drop"
    """The connection ends in the middle of the answer."""
    GARBAGE = "garbage"
    """Status 200, and no JSON."""
    UNKNOWN_VERDICT = "unknown_verdict"
    """`verdict: maybe`."""
    WRONG_DIGEST = "wrong_digest"
    """`pass`, about another content."""
    WRONG_STEP = "wrong_step"
    """`pass`, about a smaller step."""
    EXPIRED = "expired"
    """`pass`, until a minute ago."""
    HUGE = "huge"
    """A body of a mebibyte."""


ANY: Final = "*"
BY_DEFAULT: Final = "the reference service passes by default"


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """One switch; `*` fits all.

    Attributes:
        times: for how many questions; None: for all.
        summary: what a verdict says in words; empty: that it was switched on.
    """

    behaviour: Behaviour
    gate: str = ANY
    definition_id: str = ANY
    times: int | None = None
    delay_seconds: float = 1.0
    summary: str = ""


class Switches:
    """The switches that are set; the newest that fits decides, and without one every gate passes.

    Attributes:
        waiting: set as soon as an answer hangs or is slow.
    """

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self._set: list[tuple[Switch, list[int]]] = []
        self._changed = asyncio.Event()

    def set(self, switch: Switch) -> None:
        """Add a switch before those already set."""
        self._set.insert(0, (switch, [0]))
        self._wake()

    def clear(self) -> None:
        """Remove all; answers that wait are given."""
        self._set.clear()
        self._wake()

    def take(self, gate: str, definition_id: str) -> Switch:
        """Return what fits a question, and count it."""
        for switch, taken in self._set:
            fits = switch.gate in {ANY, gate} and switch.definition_id in {ANY, definition_id}
            if fits and (switch.times is None or taken[0] < switch.times):
                taken[0] += 1
                return switch
        return Switch(behaviour=Behaviour.PASS, summary=BY_DEFAULT)

    async def wait(self, seconds: float | None) -> None:
        """Wait until the switches change, or for so long."""
        self.waiting.set()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
