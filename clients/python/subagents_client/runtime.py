"""The clock, randomness, ids and trace that the SDK uses, and its timeouts. A user of the SDK can replace them."""

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
except ImportError:  # optional: without it there is no current trace
    propagate = None  # type: ignore[assignment]  # a module, or None


def current_trace() -> Mapping[str, str]:
    """Return `traceparent` and `tracestate` of OpenTelemetry's current span; empty if there is none."""
    carrier: dict[str, str] = {}
    if propagate is not None:
        propagate.inject(carrier)
    return {name: carrier[name] for name in ("traceparent", "tracestate") if name in carrier}


class Chance(Protocol):
    """The part of `random.Random` that the SDK uses."""

    def uniform(self, a: float, b: float) -> float:
        """Return a random number between `a` and `b`."""


@dataclass(frozen=True, slots=True)
class ClientRuntime:
    """The functions through which the SDK gets time, randomness, ids and traces; tests can replace them.

    Attributes:
        now: returns seconds of a monotonic clock. Every request contains its time, so that the sidecar knows how long
            the request has waited.
        sleep: waits for a number of seconds.
        chance: randomises the pauses between retries, so that clients do not return all at once.
        new_id: creates ids of turns and dispatches; unique over all processes.
        trace_headers: returns the trace of the current request: `traceparent`, and `tracestate` if there is one. They
            are sent with every request. Default: the current span of OpenTelemetry, if it is installed.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Chance = field(default_factory=SystemRandom)
    new_id: Callable[[], str] = lambda: uuid4().hex
    trace_headers: Callable[[], Mapping[str, str]] = current_trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTimeouts:
    """Default timeouts, and limits of retries. The argument `timeout` of a method replaces the default.

    Attributes:
        bind: timeout of `bind_turn`.
        dispatch: timeout of a whole dispatch, until its outcomes are known.
        unary: timeout of every other request, e.g. `cancel_call`, `end` and `read_episode`.
        unreachable_after: a dispatch ends, with synthetic outcomes, if there is no connection for this long.
        settle_margin: the SDK ends a dispatch this long before its timeout, so that the caller has time for the result.
        most_attempts: maximum number of attempts of a request that the sidecar itself refuses. While the sidecar cannot
            be reached or drains, as in a restart, only the timeout ends the attempts.
        first_backoff: maximum pause before the second attempt; doubles with each further attempt.
        longest_backoff: maximum pause between two attempts; `retry_after` of the sidecar is added to the pause.
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
    """A time limit, by the monotonic clock of the runtime."""

    def __init__(self, timeout: timedelta, now: Callable[[], float]) -> None:
        self._now = now
        self._at = now() + timeout.total_seconds()

    def left(self) -> float:
        """Return the seconds that are left; 0 if the deadline has passed."""
        return max(0.0, self._at - self._now())
