"""When a failed attempt may be repeated: the contract's attempts, a budget for all, a breaker per target and slot.

Retries are for transient failures of the execution (`Axis.EXECUTION`) only; never for a principal mismatch, a refusal
or a failure of the data (`Axis.DATA`; TN-24, PC2-D-39). Times are monotonic seconds.
"""

from collections import OrderedDict, deque
from enum import StrEnum, unique
from typing import Final

from msgspec import Struct, field

from sidecar.core.executing.contract import Execution
from sidecar.core.identifiers import Slot

MOST_BREAKERS: Final = 4096
"""More than the slots of any deployment; only a configuration that keeps renaming its slots can reach it."""


class RetryRules(Struct, frozen=True):
    """Backoff and the shared budget.

    Attributes:
        first_backoff: the longest wait before the second attempt in seconds; it doubles with each further attempt.
        longest_backoff: the limit of that growth, in seconds.
        share: retries allowed as a share of the calls in `window`.
        floor: retries always allowed per window.
        window: seconds that the budget looks back.
    """

    first_backoff: float = 0.1
    longest_backoff: float = 2.0
    share: float = 0.1
    floor: int = 3
    window: float = 10.0


def backoff_ceiling(attempt: int, rules: RetryRules) -> float:
    """Return the longest wait after `attempt` (1 for the first); the wait itself is drawn from 0 to this."""
    # Only the ceiling: if all children waited equally long, those that failed together would also repeat together.
    return min(rules.longest_backoff, rules.first_backoff * 2.0 ** (attempt - 1))


def attempts_allowed(execution: Execution) -> int:
    """Return 1 + `max_retries`. Source: SX-28."""
    return 1 + max(0, execution.max_retries)


class RetryBudget:
    """Prevents retry storms: limits retries to a share of the recent calls, plus a minimum."""

    def __init__(self, rules: RetryRules) -> None:
        """Begin with no history."""
        self._rules = rules
        self._calls: deque[float] = deque()
        self._retries: deque[float] = deque()

    def called(self, now: float) -> None:
        """Count a first attempt."""
        # Old entries are removed here as well as in `allow`: without retries, `allow` is never called and the queue
        # would grow.
        calls = self._calls
        while calls and calls[0] <= now - self._rules.window:
            calls.popleft()
        calls.append(now)

    def allow(self, now: float) -> bool:
        """Spend one retry; return False if none is left."""
        self._forget(now)
        # The floor lets a quiet system retry at all: a share of few calls is less than one retry.
        if len(self._retries) >= self._rules.floor + self._rules.share * len(self._calls):
            return False
        # Counted when it is granted, so that concurrent calls cannot spend the same retry.
        self._retries.append(now)
        return True

    def _forget(self, now: float) -> None:
        for times in (self._calls, self._retries):
            while times and times[0] <= now - self._rules.window:
                times.popleft()


class BreakerRules(Struct, frozen=True):
    """A breaker opens after `failures` transport faults in a row and tries again after `open_for` seconds."""

    failures: int = 5
    open_for: float = 5.0


@unique
class BreakerState(StrEnum):
    """The state of a breaker. Half open: one attempt, the probe, is under way, and no other is admitted."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Breaker(Struct):
    """Makes calls of one slot to a target that cannot be reached fail at once. Never changes a surface."""

    rules: BreakerRules = field(default_factory=BreakerRules)
    state: BreakerState = BreakerState.CLOSED
    _failures: int = 0
    _opened_at: float = 0.0

    def admit(self, now: float) -> bool:
        """Return whether an attempt may go out."""
        # The attempt that changes the state to HALF_OPEN is the probe. Other attempts are refused until its result is
        # known.
        if self.state is BreakerState.OPEN and now >= self._opened_at + self.rules.open_for:
            self.state = BreakerState.HALF_OPEN
            return True
        return self.state is BreakerState.CLOSED

    def succeeded(self) -> None:
        """Record that the target answered, even if the answer was an error of the sub-agent."""
        # Also from half open: the probe has reached the target. One answer ends a row of failures.
        self.state, self._failures = BreakerState.CLOSED, 0

    def failed(self, now: float) -> None:
        """Record that the target could not be reached: unavailable, connection lost, or no first message in time."""
        self._failures += 1
        # One failed probe is enough, because the failures that opened the breaker were never followed by a success.
        if self.state is BreakerState.HALF_OPEN or self._failures >= self.rules.failures:
            self.state, self._opened_at, self._failures = BreakerState.OPEN, now, 0

    def abandoned(self, now: float) -> None:
        """Record that an admitted attempt ended without a result about the target, for example because of a cancel."""
        # Without this change the breaker would stay half open and refuse all attempts for ever. The next attempt is the
        # next probe.
        if self.state is BreakerState.HALF_OPEN:
            self.state, self._opened_at = BreakerState.OPEN, now - self.rules.open_for


class Breakers:
    """One circuit breaker for each target and slot: failures of one slot do not stop other slots of the same host."""

    def __init__(self, rules: BreakerRules) -> None:
        """Begin with all closed."""
        self._rules = rules
        self._kept: OrderedDict[tuple[str, Slot], Breaker] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of stored breakers."""
        return len(self._kept)

    def not_closed(self) -> list[tuple[str, Slot, BreakerState]]:
        """Return the target and slot of each that is open or half open."""
        kept = self._kept.items()
        return [(*key, each.state) for key, each in kept if each.state is not BreakerState.CLOSED]

    def of(self, target: str, slot: Slot) -> Breaker:
        """Return the breaker of a target and slot. Above the limit, the least recently used breaker is dropped."""
        # Removing and inserting again moves the breaker to the end, so the first one is the least recently used.
        breaker = self._kept.pop((target, slot), None) or Breaker(self._rules)
        self._kept[target, slot] = breaker
        if len(self._kept) > MOST_BREAKERS:
            self._kept.popitem(last=False)
        return breaker
