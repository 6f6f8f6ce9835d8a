"""Who hears of a dispatch, and progress reports: put to the policy, gathered where it says so, told in time."""

import asyncio
from collections.abc import Callable, Mapping

from sidecar.core.dispatching.frames import StatusUpdate
from sidecar.core.status_events.policy import Vocabulary
from sidecar.core.status_events.relay import Reporter, StatusRelay
from sidecar.operations.ports import Clock, Recorder


class Listeners:
    """The listeners of one dispatch, by number."""

    def __init__(self) -> None:
        self._wakers: dict[int, asyncio.Event] = {}
        self._next = 0

    def __bool__(self) -> bool:
        """Say whether anybody listens."""
        return bool(self._wakers)

    def add(self) -> tuple[int, asyncio.Event]:
        """Add a listener; returns its number and what wakes it."""
        self._next += 1
        self._wakers[self._next] = asyncio.Event()
        return self._next, self._wakers[self._next]

    def remove(self, number: int | None) -> None:
        """Remove a listener, if there is one of that number."""
        if number is not None:
            self._wakers.pop(number, None)

    def wake(self) -> None:
        """Wake all of them."""
        for waker in self._wakers.values():
            waker.set()


class Progress:
    """The reports of one dispatch.

    Args:
        vocabulary: what the operator decided.
        clock: for times that are due.
        recorder: counts the reports.
        tell: called with what is to be told, as soon as it is.
    """

    def __init__(
        self, vocabulary: Vocabulary, *, clock: Clock, recorder: Recorder, tell: Callable[[StatusUpdate], None]
    ) -> None:
        """Begin with nothing gathered."""
        self._clock, self._recorder = clock, recorder
        self._tell = tell
        self._relay = StatusRelay(vocabulary)
        self._timer: asyncio.TimerHandle | None = None

    def report(self, reporter: Reporter, event_type: str, attributes: Mapping[str, str]) -> None:
        """Take one report. Source: PC2-FR-13."""
        decision, update = self._relay.offer(reporter, event_type, attributes, self._clock.monotonic())
        self._recorder.status_seen(reporter.slot, decision)
        if update is not None:
            self._tell(update)
        elif self._timer is None:
            self._arm()

    def tell_rest(self) -> None:
        """Tell what is gathered: nothing comes after."""
        self.drop_timer()
        for update in self._relay.flush(float("inf")):
            self._tell(update)

    def drop_timer(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        due = self._relay.next_due()
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._flush)

    def _flush(self) -> None:
        self._timer = None
        for update in self._relay.flush(self._clock.monotonic()):
            self._tell(update)
        self._arm()
