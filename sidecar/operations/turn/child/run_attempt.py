"""One attempt of one child: reads what the runner reports until it ends, is stopped, or runs out of something.

Whatever a runner does (hang, flood, lie, raise anything, ignore cancellation), this ends on time with a value.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from sidecar.core.dispatching.outcomes import Answer, Component, Usage
from sidecar.core.dispatching.result_checks import ResultBroken, ResultCollector
from sidecar.core.faults import UNKNOWN_REMEDY, Fault
from sidecar.operations.first_result import Ending
from sidecar.operations.ports import Recorder, Spawner, Task
from sidecar.operations.turn.state.ledger import Ledger
from sidecar.operations.turn.state.recorded_frames import AttemptFrames
from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    Runner,
    RunnerError,
    RunnerEvent,
    RunRequest,
    StatusReported,
    UsageReported,
)
from subagents_errors import CallFailure

EVENTS_BETWEEN_PAUSES = 64
"""An in-process runner that never waits would keep the loop for itself otherwise."""


class Finished(msgspec.Struct, frozen=True):
    """The attempt brought an answer that passed the checks."""

    answer: Answer


class Broken(msgspec.Struct, frozen=True):
    """The attempt failed.

    Attributes:
        detail: for the operator's timeline only.
        fault: where the way to the host broke; None: anything but a transport fault.
        evidence: what the child had brought before; not an answer.
    """

    reason: CallFailure
    detail: str
    transient: bool = False
    fault: Fault | None = None
    evidence: Answer = Answer()


class OutOfBudget(msgspec.Struct, frozen=True):
    """The child's time or tokens ran out; `answer` is what was there."""

    answer: Answer
    which: str


AttemptEnd = Finished | Broken | OutOfBudget


class AttemptBounds(msgspec.Struct, frozen=True):
    """When an attempt has to end. Times of the loop's clock; None: no such bound.

    Attributes:
        timeout_at: of the attempt: fails. None: all calls of the dispatch are stopped before.
        wall_clock_at: of the child's budget: degrades.
        idle: seconds between two reports.
        ledger: counts tokens, says what is left of the budget and whether the child waits for one it delegated to.
    """

    timeout_at: float | None
    wall_clock_at: float | None
    idle: float | None
    ledger: Ledger


class Quarantine(msgspec.Struct, frozen=True):
    """Who is told of an attempt that runs on `after` seconds after it was stopped."""

    recorder: Recorder
    after: float

    def watch(self, task: Task, attempt_id: str) -> None:
        """Look at the task later."""
        if not task.done():
            asyncio.get_running_loop().call_later(self.after, self._report, task, attempt_id)

    def _report(self, task: Task, attempt_id: str) -> None:
        if not task.done():
            self.recorder.anomaly("attempt_quarantined", f"{attempt_id} runs on although it was told to stop")


class Attempt:
    """One attempt at work.

    Attributes:
        heard: the host has reported something, or ended the attempt with an error of its own.
    """

    def __init__(
        self,
        runner: Runner,
        collector: ResultCollector,
        bounds: AttemptBounds,
        on_status: Callable[[StatusReported], None],
        quarantine: Quarantine,
        frames: AttemptFrames | None = None,
    ) -> None:
        """Join the parts; nothing runs yet."""
        self._runner = runner
        self._collector = collector
        self._bounds = bounds
        self._on_status = on_status
        self._quarantine = quarantine
        self._frames = frames
        self._ending: Ending[AttemptEnd] = Ending()
        self._last_event = 0.0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.heard = False

    async def run(self, request: RunRequest, stop: Ending[CallFailure], spawner: Spawner) -> AttemptEnd:
        """Run to whichever end comes first.

        Args:
            request: what the runner gets.
            stop: settled from outside to stop the whole call (cancel, join deadline, end of turn).
            spawner: owns the task that reads the runner.
        """
        self._watch_the_clock()
        stop.on_settled(lambda reason: self._end(Broken(reason, "stopped")))
        task = spawner.spawn(self._consume(request), f"attempt {request.attempt_id}")
        try:
            return await self._ending.wait()
        finally:
            self._end(Broken(CallFailure.CALL_CANCELLED, "abandoned"))
            for timer in self._timers.values():
                timer.cancel()
            task.cancel()
            self._quarantine.watch(task, request.attempt_id)

    def _watch_the_clock(self) -> None:
        loop, bounds = asyncio.get_running_loop(), self._bounds
        if bounds.timeout_at is not None:
            timed_out = Broken(CallFailure.ATTEMPT_TIMEOUT, "timed out", transient=True)
            self._timers["timeout"] = loop.call_at(bounds.timeout_at, self._end, timed_out)
        if bounds.wall_clock_at is not None:
            self._timers["wall_clock"] = loop.call_at(bounds.wall_clock_at, self._out_of_budget, "wall_clock")
        if bounds.idle is not None:
            self._last_event = loop.time()
            self._watch_idle(bounds.idle)

    def _watch_idle(self, idle: float) -> None:
        loop = asyncio.get_running_loop()
        if self._ending.settled:
            return
        if self._bounds.ledger.running:
            self._last_event = loop.time()  # who waits for another sub-agent is not silent
        if loop.time() >= self._last_event + idle:
            self._end(Broken(CallFailure.RUNNER_IDLE, f"silent for {idle} s", transient=True))
        else:
            self._timers["idle"] = loop.call_at(self._last_event + idle, self._watch_idle, idle)

    async def _consume(self, request: RunRequest) -> None:
        """Read the runner's events. The border to foreign code: nothing it raises gets past."""
        try:
            await self._read(request)
        except ResultBroken as broken:
            self._end(Broken(broken.reason, broken.detail))
        except RunnerError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._end_heard("the sub-agent cancelled itself")
            raise
        except BaseException as error:  # noqa: BLE001  SystemExit of a sub-agent must not end the process
            self._end_heard(f"raised {type(error).__name__}")

    def _fail(self, error: RunnerError) -> None:
        if not (error.unreachable or error.connection_lost):
            self._end_heard(error.detail, transient=error.transient)
            return
        reason = CallFailure.RUNNER_UNAVAILABLE if error.unreachable else CallFailure.RUNNER_FAILED
        fault = error.fault or Fault(self._runner.target, remedy=UNKNOWN_REMEDY)
        self._end(Broken(reason, error.detail, transient=error.transient, fault=fault))

    def _end_heard(self, detail: str, *, transient: bool = False) -> None:
        """End with an error of the sub-agent or its host, which shows that the host is there."""
        if self._end(Broken(CallFailure.RUNNER_FAILED, detail, transient=transient)):
            self.heard = True

    async def _read(self, request: RunRequest) -> None:
        events = self._runner.run(request)
        try:
            await self._read_to_the_end(events)
        except ResultBroken:
            raise
        except BaseException as error:
            self._keep_end(error)
            raise
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    async def _read_to_the_end(self, events: AsyncIterator[RunnerEvent]) -> None:
        loop = asyncio.get_running_loop()
        seen = 0
        async for event in events:
            self._last_event = loop.time()
            if self._ending.settled:
                return  # too late: the attempt is over, what it still brings is thrown away
            self.heard = True
            if self._frames is not None:
                self._frames.came(event, self._last_event)
            self._collector.count_event()
            if self._take(event):
                return
            seen += 1
            if seen % EVENTS_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
        self._keep_end(None)
        self.heard = True
        self._end(Broken(CallFailure.RESULT_INVALID, "the stream ended without RunFinished", transient=True))

    def _keep_end(self, error: BaseException | None) -> None:
        """Keep how the runner ended, for replays; not what it does once the attempt is over."""
        if self._frames is not None and not self._ending.settled:
            self._frames.runner_ended(error, asyncio.get_running_loop().time())

    def _take(self, event: RunnerEvent) -> bool:
        """Take one event; say whether it was the last."""
        match event:
            case StatusReported():
                self._on_status(event)
            case NarrationPart(text):
                self._collector.add_narration(text)
            case ComponentMade(name, tool_input, data):
                self._collector.add_component(Component(name, tool_input, data))
            case UsageReported(read, written, cached):
                read = max(0, read)
                return self._use(Usage(read, max(0, written), None if cached is None else min(max(0, cached), read)))
            case RunFinished(data_unavailable):
                self._end(Finished(self._collector.answer(data_unavailable=data_unavailable)))
                return True
            case _:
                raise ResultBroken(CallFailure.RESULT_INVALID, f"reported a {type(event).__name__}")
        return False

    def _use(self, usage: Usage) -> bool:
        before, ledger = self._collector.usage or Usage(), self._bounds.ledger
        self._collector.usage = usage
        ledger.use_tokens(usage.total - before.total)  # reports are running totals
        if ledger.tokens_left is None or ledger.tokens_left >= 0:
            return False
        self._out_of_budget("tokens")
        return True

    def _out_of_budget(self, which: str) -> None:
        if not self._ending.settled:
            self._end(OutOfBudget(self._collector.partial(), which))

    def _end(self, how: AttemptEnd) -> bool:
        return self._ending.settle(how)
