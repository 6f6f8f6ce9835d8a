"""Who hears of a dispatch, and progress reports: put to the policy, gathered where it says so, told in time.

For a sub-agent that is silent for too long the sidecar reports `still_working`, by the same policy.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from sidecar.core.dispatching.frames import StatusUpdate
from sidecar.core.status_events.policy import Handling, Vocabulary
from sidecar.core.status_events.relay import Reporter, StatusRelay
from sidecar.core.status_events.silence import STILL_WORKING, Silences
from sidecar.operations.ports import Clock, Recorder

PASSED_ON: Final = (Handling.FORWARD, Handling.TRANSFORM, Handling.BATCH)


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
        self._reporters: dict[int, Reporter] = {}
        self._silences = _silences_of(vocabulary)
        self._silence_timer: asyncio.TimerHandle | None = None

    def began(self, reporter: Reporter) -> None:
        """A sub-agent runs from now on, and should be heard of."""
        self._reporters[reporter.index] = reporter
        if self._silences is not None:
            self._silences.began(reporter, self._clock.monotonic())
            self._listen()

    def ended(self, index: int) -> None:
        """A call has its outcome: nothing more is to be heard of it."""
        if self._silences is not None:
            self._silences.ended(index)

    def report(self, index: int, event_type: str, attributes: Mapping[str, str]) -> None:
        """Take one report of the sub-agent of a call, by the call's place. Source: PC2-FR-13."""
        reporter = self._reporters[index]
        decision = self._offer(reporter, event_type, attributes)
        self._recorder.status_seen(reporter.slot, decision)
        if decision == "unknown":
            self._recorder.status_unknown(reporter.slot, event_type)
        elif decision in PASSED_ON and self._silences is not None:
            self._silences.broken(index, self._clock.monotonic())
            self._listen()

    def _offer(self, reporter: Reporter, event_type: str, attributes: Mapping[str, str]) -> str:
        """Put a report to the policy, tell or gather it, and return what was decided."""
        decision, update = self._relay.offer(reporter, event_type, attributes, self._clock.monotonic())
        if update is not None:
            self._tell(update)
        elif self._timer is None:
            self._arm()
        return decision

    def tell_rest(self) -> None:
        """Tell what is gathered: nothing comes after."""
        self.drop_timer()
        for update in self._relay.flush(float("inf")):
            self._tell(update)

    def drop_timer(self) -> None:
        """Forget the timers."""
        for timer in (self._timer, self._silence_timer):
            if timer is not None:
                timer.cancel()

    def _arm(self) -> None:
        due = self._relay.next_due()
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._flush)

    def _flush(self) -> None:
        self._timer = None
        for update in self._relay.flush(self._clock.monotonic()):
            self._tell(update)
        self._arm()

    def _listen(self) -> None:
        """Wait for the next silence that is too long; one timer for all sub-agents of the dispatch."""
        due = None if self._silences is None else self._silences.next_due()
        if due is None or (self._silence_timer is not None and self._silence_timer.when() <= due):
            return
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        self._silence_timer = asyncio.get_running_loop().call_at(due, self._break_silences)

    def _break_silences(self) -> None:
        self._silence_timer = None
        for reporter in () if self._silences is None else self._silences.take_due(self._clock.monotonic()):
            decision = self._offer(reporter, STILL_WORKING, {})
            self._recorder.status_seen(reporter.slot, STILL_WORKING if decision in PASSED_ON else decision)
        self._listen()


def _silences_of(vocabulary: Vocabulary) -> Silences | None:
    """Return where silences are kept; None if nobody would hear of them."""
    rule = vocabulary.rules.get(STILL_WORKING)
    if vocabulary.silence is None or rule is None or rule.handling is Handling.SUPPRESS:
        return None
    return Silences(vocabulary.silence.total_seconds())
