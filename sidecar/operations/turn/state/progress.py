"""Listeners of a dispatch, and its progress reports: the policy forwards, batches or suppresses each report.

The sidecar itself reports `still_working` for a sub-agent that is silent for too long, under the same policy.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from sidecar.core.dispatching.frames import EventLog, StatusUpdate
from sidecar.core.identifiers import CallId
from sidecar.core.status_events.policy import Handling, Vocabulary
from sidecar.core.status_events.relay import ChildReporter, StatusRelay
from sidecar.core.status_events.silence import STILL_WORKING, SilenceMonitor
from sidecar.operations.deadlines import Deadline, Deadlines
from sidecar.operations.ports import Clock, Recorder
from sidecar.operations.turn.state.child import Child

PASSED_ON: Final = (Handling.FORWARD, Handling.TRANSFORM, Handling.BATCH)


class Listener:
    """One stream that listens to a dispatch: it sends new events, then waits for a wake-up."""

    __slots__ = ("_group", "_waiter", "woken")

    def __init__(self, group: "Listeners") -> None:
        self.woken = False
        self._group = group
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Wake the listener, because there are new events."""
        self.woken = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def hears(self) -> None:
        """Note that the listener is about to send all new events: only events after this call must wake it."""
        # `asleep` is shared by all listeners. A needless True costs one loop over them; a wrong False would lose a
        # wake-up.
        self.woken, self._group.asleep = False, True

    async def wait(self) -> None:
        """Return as soon as the listener was woken after its last `hears`."""
        if not self.woken:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


class Listeners:
    """The listeners of one dispatch, by number.

    Attributes:
        asleep: at least one listener may be waiting. If it is False, an event need not loop over the listeners.
    """

    def __init__(self) -> None:
        self._listeners: dict[int, Listener] = {}
        self._next = 0
        self.asleep = False

    def __bool__(self) -> bool:
        """Return whether there is a listener."""
        return bool(self._listeners)

    def add(self) -> tuple[int, Listener]:
        """Add a listener; return its number, for `remove`, and the listener."""
        self._next += 1
        listener = self._listeners[self._next] = Listener(self)
        return self._next, listener

    def remove(self, number: int | None) -> None:
        """Remove the listener of that number, if there is one."""
        if number is not None:
            self._listeners.pop(number, None)

    def wake(self) -> None:
        """Wake all listeners."""
        self.asleep = False
        for listener in self._listeners.values():
            listener.wake()


class ProgressReports:
    """The progress reports of one dispatch.

    Args:
        vocabulary: the configured handling of each type of report.
        clock: measures silences, and stamps the events of the log.
        recorder: counts the reports.
        deadlines, log, listeners: of the dispatch.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        clock: Clock,
        recorder: Recorder,
        deadlines: Deadlines,
        log: EventLog,
        listeners: Listeners,
    ) -> None:
        """Begin without batched reports."""
        self._clock, self._recorder, self._deadlines = clock, recorder, deadlines
        self._log, self._listeners = log, listeners
        self._relay = StatusRelay(vocabulary)
        self._flushing = False
        self._reporters: dict[CallId, ChildReporter] = {}
        self._silences = _silences_of(vocabulary)
        self._next_silence: tuple[float, Deadline] | None = None  # when the next silence is too long, and its deadline

    def began(self, reporter: ChildReporter) -> None:
        """Note that a sub-agent has started; from now on its silence is measured."""
        self._reporters[reporter.call_id] = reporter
        if self._silences is not None:
            self._silences.began(reporter, self._clock.monotonic())
            self._schedule_silence()

    def ended(self, index: int) -> None:
        """Note that a call has its outcome; its silence is no longer measured."""
        if self._silences is not None:
            self._silences.ended(index)

    def report(self, child: Child, event_type: str, attributes: Mapping[str, str]) -> None:
        """Handle one report of a child; listeners see it under the name of the sub-agent. Source: PC2-FR-13."""
        reporter, now = self._reporters[child.call_id], self._clock.monotonic()
        decision, update = self._relay.offer(reporter, event_type, attributes, now)
        if update is not None:
            self._send(update)
        # One deadline for all batches of the dispatch; `_flush` sets the next one.
        elif decision is Handling.BATCH and not self._flushing:
            self._flush_when_due()
        self._recorder.status_seen(reporter.slot, decision)
        if decision == "unknown":
            self._recorder.status_unknown(reporter.slot, event_type)
        elif self._silences is not None and decision in PASSED_ON:
            self._silences.broken(reporter.index, now)
            self._schedule_silence()

    def _send(self, update: StatusUpdate) -> None:
        self._log.add(self._clock.now(), update)
        if self._listeners.asleep:
            self._listeners.wake()

    def tell_rest(self) -> None:
        """Send all batched reports, due or not, because the dispatch ends."""
        # Infinity is later than any due time. Reports that stayed in a batch here would be lost with the dispatch.
        for update in self._relay.flush(float("inf")):
            self._send(update)

    def _flush_when_due(self) -> None:
        due = self._relay.next_due()
        self._flushing = due is not None
        if due is not None:
            self._deadlines.at(due, self._flush)

    def _flush(self) -> None:
        for update in self._relay.flush(self._clock.monotonic()):
            self._send(update)
        self._flush_when_due()

    def _schedule_silence(self) -> None:
        """Set the deadline of the next silence that is too long: one deadline for all sub-agents of the dispatch."""
        due = None if self._silences is None else self._silences.next_due()
        # An earlier deadline serves as well: when it comes, the next one is computed. Most reports therefore set no
        # timer.
        if due is None or (self._next_silence is not None and self._next_silence[0] <= due):
            return
        if self._next_silence is not None:
            self._next_silence[1].cancel()
        self._next_silence = due, self._deadlines.at(due, self._break_silences)

    def _break_silences(self) -> None:
        """Report `still_working` for each sub-agent that has been silent for too long."""
        # Cleared first: otherwise `_schedule_silence` would find the deadline that has just passed, and set no new one.
        self._next_silence = None
        now = self._clock.monotonic()
        for reporter in () if self._silences is None else self._silences.take_due(now):
            # Through the relay: `still_working` obeys the configured rate like any report of a sub-agent.
            decision, update = self._relay.offer(reporter, STILL_WORKING, {}, now)
            if update is not None:
                self._send(update)
            elif not self._flushing:
                self._flush_when_due()
            self._recorder.status_seen(reporter.slot, STILL_WORKING if decision in PASSED_ON else decision)
        self._schedule_silence()


def _silences_of(vocabulary: Vocabulary) -> SilenceMonitor | None:
    """Return a monitor of silences; None if the policy would not show `still_working` to any listener."""
    rule = vocabulary.rules.get(STILL_WORKING)
    if vocabulary.silence is None or rule is None or rule.handling is Handling.SUPPRESS:
        return None
    return SilenceMonitor(vocabulary.silence.total_seconds())
