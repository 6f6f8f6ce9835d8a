"""Time, chance and ids as the SDK sees them, and how long it takes for things. All of it can be replaced."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import SystemRandom
from typing import Protocol
from uuid import uuid4

try:
    from opentelemetry import propagate
except ImportError:  # the SDK does not need it; without it there is no current trace
    propagate = None  # type: ignore[assignment]  # a module, or nothing


def current_trace() -> Mapping[str, str]:
    """Return `traceparent` and `tracestate` of OpenTelemetry's current span; empty if there is none."""
    carrier: dict[str, str] = {}
    if propagate is not None:
        propagate.inject(carrier)
    return {name: carrier[name] for name in ("traceparent", "tracestate") if name in carrier}


class Chance(Protocol):
    """What is needed of `random.Random`."""

    def uniform(self, a: float, b: float) -> float:
        """Return a number between two."""


@dataclass(frozen=True, slots=True)
class ClientRuntime:
    """What the SDK takes from outside.

    Attributes:
        now: monotonic seconds. Every request says when it was sent, so that the sidecar knows how long it has waited.
        sleep: waits for some seconds.
        chance: spreads retries, so that clients do not come back all at once.
        new_id: makes ids for turns and dispatches; unique over all processes.
        trace_headers: names the trace that the current request belongs to: `traceparent`, and `tracestate` if there is
            any. Sent with every request. Default: the current span of OpenTelemetry, if that is installed.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Chance = field(default_factory=SystemRandom)
    new_id: Callable[[], str] = lambda: uuid4().hex
    trace_headers: Callable[[], Mapping[str, str]] = current_trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTimeouts:
    """How long the SDK takes for things. Every call can be given a `timeout` of its own instead.

    Attributes:
        bind: for `bind_turn`.
        dispatch: for a whole dispatch, until its outcomes are there.
        unary: for `cancel_call`, `close_child` and `end`.
        unreachable_after: without any connection to the sidecar for so long, a dispatch is given up.
        settle_margin: a dispatch is settled so long before its own deadline.
        most_attempts: how often one request is sent at most if the sidecar itself refuses it. While the sidecar cannot
            be reached or drains, as in a restart, only the timeout ends the attempts.
        first_backoff: before the second attempt, at most; doubles with each further one.
        longest_backoff: between two attempts, unless the sidecar asks for longer.
    """

    bind: timedelta = timedelta(seconds=5)
    dispatch: timedelta = timedelta(seconds=100)
    unary: timedelta = timedelta(seconds=5)
    unreachable_after: timedelta = timedelta(seconds=5)
    settle_margin: timedelta = timedelta(milliseconds=50)
    most_attempts: int = 4
    first_backoff: timedelta = timedelta(milliseconds=50)
    longest_backoff: timedelta = timedelta(milliseconds=500)


class Deadline:
    """A moment by which something must be over."""

    def __init__(self, timeout: timedelta, now: Callable[[], float]) -> None:
        self._now = now
        self._at = now() + timeout.total_seconds()

    def left(self) -> float:
        """Return the seconds until then; 0 if it has passed."""
        return max(0.0, self._at - self._now())
