"""Runs one attempt of one child: reads the runner's stream until it ends, is stopped, or exceeds a limit.

Whatever a runner does (hang, flood, lie, raise any exception, ignore cancellation), the attempt ends on time with a
value.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import msgspec

from sidecar.core.dispatching.outcomes import Answer, Component, Usage
from sidecar.core.dispatching.questions import Asked
from sidecar.core.dispatching.result_checks import InvalidResult, ResultCollector, usage_of
from sidecar.core.faults import UNKNOWN_REMEDY, Fault
from sidecar.core.identifiers import AttemptId
from sidecar.operations.deadlines import Deadline
from sidecar.operations.ports import Recorder, Spawner, Task
from sidecar.operations.turn.child.call_context import CallContext
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.recorded_frames import AttemptFrames
from sidecar.operations.turn.state.tracing import AttemptSpan
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

TIMED_OUT = "not ended within the `limits.attempt_timeout` of its definition"
EVENTS_BETWEEN_PAUSES = 64
"""After so many events the attempt yields to the event loop. An in-process runner that never waits would block it."""


class Finished(msgspec.Struct, frozen=True):
    """The attempt returned an answer that passed the checks, or a question (`asked`)."""

    answer: Answer
    asked: Asked | None = None


class BrokenReport(msgspec.Struct, frozen=True):
    """The attempt failed; if `transient`, another attempt may succeed.

    Attributes:
        detail: for the operator's timeline only; never sent to the parent.
        fault: where the connection to the host broke; None if the transport did not fail.
        evidence: what the child had sent before it failed. It is not an answer.
    """

    reason: CallFailure
    detail: str
    transient: bool = False
    fault: Fault | None = None
    evidence: Answer = Answer()


class OutOfBudget(msgspec.Struct, frozen=True):
    """The child used up a budget: `which` is `wall_clock` or `tokens`. `answer` is what it had sent before."""

    answer: Answer
    which: str


AttemptEnd = Finished | BrokenReport | OutOfBudget


class AttemptBounds(msgspec.Struct, frozen=True):
    """The times at which an attempt must end, by the event loop's clock. None: no such bound.

    Attributes:
        timeout_at: end of the attempt's own time: the attempt fails. None: the dispatch is stopped before that.
        wall_clock_at: end of the child's time budget: the outcome is degraded.
        idle: the longest time between two reports, in seconds.
    """

    timeout_at: float | None
    wall_clock_at: float | None
    idle: float | None


def bounds_of(child: Child, settle_at: float, now: float, idle: timedelta | None) -> AttemptBounds:
    """Return the bounds of an attempt that begins now. All calls of its dispatch are stopped at `settle_at`.

    `idle` is the operator's limit between two reports; a limit on the card replaces it.
    """
    budgets, timeout_at = child.contract.budgets, now + child.contract.execution.attempt_timeout_ms / 1000
    limit = timedelta(milliseconds=budgets.idle_timeout_ms) if budgets.idle_timeout_ms else idle
    return AttemptBounds(
        timeout_at=timeout_at if timeout_at <= settle_at else None,
        wall_clock_at=child.wall_clock_at,
        idle=limit.total_seconds() if limit is not None else None,
    )


class Quarantine(msgspec.Struct, frozen=True):
    """Reports attempts that still run `after` seconds after they were stopped."""

    recorder: Recorder
    after: float

    def watch(self, task: Task, attempt_id: str) -> None:
        """Report the task if it still runs after `after` seconds."""
        asyncio.get_running_loop().call_later(self.after, self._report, task, attempt_id)

    def _report(self, task: Task, attempt_id: str) -> None:
        if not task.done():
            self.recorder.anomaly("attempt_quarantined", f"{attempt_id} still runs although it was cancelled")


class Attempt:
    """One attempt to run a child: one task, which reads the runner's stream.

    Attributes:
        collector: the parts of the answer so far.
        span: the attempt's span, if the trace is sampled.
        ended: the attempt is over; anything that the runner sends later is discarded.
        reports: number of progress reports, before the status policy is applied.
        heard: the host has sent an event, or has ended the attempt with an error of its own.
    """

    __slots__ = (
        *("_bounds", "_deadlines", "_context", "_child", "_frames", "_idle", "_last_event", "_limits", "_on_end"),
        *("_quarantine", "_runner", "_task", "attempt_id", "collector", "ended", "heard", "reports", "span"),
    )

    def __init__(
        self,
        attempt_id: AttemptId,
        runner: Runner,
        collector: ResultCollector,
        span: AttemptSpan | None,
        *,
        child: Child,
        context: CallContext,
        quarantine: Quarantine,
        frames: AttemptFrames | None,
        on_end: Callable[[AttemptEnd], None],
    ) -> None:
        """Prepare the attempt; nothing runs yet. `on_end` is called once, with the end, as soon as the attempt ends."""
        self.attempt_id, self.collector, self.span = attempt_id, collector, span
        self._runner, self._child, self._context = runner, child, context
        self._quarantine, self._frames, self._on_end = quarantine, frames, on_end
        self._limits: list[Deadline] = []
        self._idle: Deadline | None = None
        self._last_event = 0.0
        self._task: Task | None = None
        self.ended = self.heard = False
        self.reports = 0

    def start(self, request: RunRequest, bounds: AttemptBounds, spawner: Spawner) -> None:
        """Begin to read the runner, in a task that `spawner` owns."""
        at = self._context.deadlines.at
        if bounds.timeout_at is not None:
            timed_out = BrokenReport(CallFailure.ATTEMPT_TIMEOUT, TIMED_OUT, transient=True)
            self._limits.append(at(bounds.timeout_at, self.end, timed_out))
        if bounds.wall_clock_at is not None:
            # The wall clock belongs to the child and not to the attempt: it continues over all attempts, and its end
            # degrades the outcome instead of failing it.
            self._limits.append(at(bounds.wall_clock_at, self._out_of_budget, "wall_clock"))
        if bounds.idle is not None:
            self._last_event = asyncio.get_running_loop().time()
            self._watch_idle(bounds.idle)
        self._task = spawner.spawn(self._consume(request), f"attempt {self.attempt_id}")

    def end(self, how: AttemptEnd, *, heard: bool = False) -> None:
        """End the attempt, unless it has ended. `heard`: the host itself ended it, so the host is reachable."""
        if self.ended:
            return
        # Whichever of the runner's end, a limit and a stop comes first decides. Later ones, also those of the same pass
        # of the event loop, find `ended` and change nothing.
        self.ended, self.heard = True, self.heard or heard
        for limit in self._limits:
            limit.cancel()
        if self._idle is not None:
            self._idle.cancel()
        if self._task is not None:
            # Not cancelled directly: `end` often runs inside this task, which then ends by itself. Cancelling it here
            # would turn its normal end into a cancellation.
            asyncio.get_running_loop().call_soon(self._cancel_if_running, self._task)
        self._on_end(how)

    def _cancel_if_running(self, task: Task) -> None:
        """Cancel the task if it has not ended by itself. Nothing waits for it: it may ignore the cancellation."""
        if not task.done():
            task.cancel()
            self._quarantine.watch(task, self.attempt_id)

    def _watch_idle(self, idle: float) -> None:
        loop = asyncio.get_running_loop()
        if self._child.ledger.running:
            self._last_event = loop.time()  # a sub-agent that waits for a delegation does not count as silent
        if loop.time() >= self._last_event + idle:
            self.end(BrokenReport(CallFailure.RUNNER_IDLE, f"silent for {idle} s", transient=True))
        else:
            # Set again only when it is due, not for each event: a sub-agent that streams may send thousands of them.
            self._idle = self._context.deadlines.at(self._last_event + idle, self._watch_idle, idle)

    async def _consume(self, request: RunRequest) -> None:
        """Read the runner's events. This is the boundary to foreign code: no exception of a runner passes it."""
        if self.span is not None:
            self.span.enter()
        try:
            await self._read(request)
        except InvalidResult as broken:
            self.end(BrokenReport(broken.reason, broken.detail))
        except RunnerError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self.end(BrokenReport(CallFailure.RUNNER_FAILED, "the sub-agent cancelled itself"), heard=True)
            raise  # a swallowed cancellation would hide from the owner of this task that it was stopped
        except BaseException as error:  # noqa: BLE001  SystemExit in a sub-agent must not end the process
            self.end(BrokenReport(CallFailure.RUNNER_FAILED, f"raised {type(error).__name__}"), heard=True)

    def _fail(self, error: RunnerError) -> None:
        detail = str(error.detail).encode(errors="replace").decode()  # a lone surrogate cannot be recorded as UTF-8
        if not (error.unreachable or error.connection_lost):
            # The sub-agent or its host reported an error, so the host is reachable: the breaker must not count it.
            self.end(BrokenReport(CallFailure.RUNNER_FAILED, detail, transient=error.transient), heard=True)
            return
        reason = CallFailure.RUNNER_UNAVAILABLE if error.unreachable else CallFailure.RUNNER_FAILED
        fault = error.fault or Fault(self._runner.target, remedy=UNKNOWN_REMEDY)
        self.end(BrokenReport(reason, detail, transient=error.transient, fault=fault))

    async def _read(self, request: RunRequest) -> None:
        events = self._runner.run(request)
        try:
            await self._read_to_the_end(events)
        except InvalidResult:
            raise  # from a check of the sidecar, which a replay repeats: it is not an input
        except BaseException as error:
            self._keep_end(error)
            raise
        finally:
            if (close := getattr(events, "aclose", None)) is not None:
                await close()  # also after an error: the stream may hold a connection

    async def _read_to_the_end(self, events: AsyncIterator[RunnerEvent]) -> None:
        loop, frames, collector = asyncio.get_running_loop(), self._frames, self.collector
        seen = 0
        async for event in events:
            self._last_event = loop.time()
            if self.ended:
                return  # the attempt has ended; late events are discarded
            self.heard = True
            # Before the event takes effect: a replay must see it even if processing it ends the attempt.
            if frames is not None:
                frames.add(event, self._last_event)
            seen += 1
            if seen > collector.most_events:
                collector.refuse_flood()  # raises `InvalidResult`
            match event:
                case StatusReported(event_type, attributes):
                    self.reports += 1
                    self._context.status(self._child, event_type, attributes)
                case NarrationPart(text):
                    collector.add_narration(text)
                case ComponentMade(name, tool_input, data):
                    collector.add_component(Component(name, tool_input, data))
                case UsageReported(read, written, cached):
                    if self._count_tokens(read, written, cached):
                        return
                case RunFinished(data_unavailable, asked):
                    question = asked and collector.question(asked)
                    self.end(Finished(collector.answer(data_unavailable=bool(data_unavailable)), question))
                    return
                case _:
                    raise InvalidResult(CallFailure.RESULT_INVALID, f"reported a {type(event).__name__}")
            if seen % EVENTS_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
        self._keep_end(None)
        broken = BrokenReport(CallFailure.RESULT_INVALID, "the stream ended without RunFinished", transient=True)
        self.end(broken, heard=True)

    def _keep_end(self, error: BaseException | None) -> None:
        """Record for replays how the runner ended, unless the attempt had ended before."""
        if self._frames is not None and not self.ended:
            self._frames.runner_ended(error, asyncio.get_running_loop().time())

    def _count_tokens(self, read: int, written: int, cached: int | None) -> bool:
        """Count the tokens of a report; return True if they exceed the budget, which ends the attempt."""
        usage = usage_of(read, written, cached)
        before, ledger = self.collector.usage or Usage(), self._child.ledger
        self.collector.usage = usage
        ledger.use_tokens(usage.total - before.total)  # each report has the total so far, not an increment
        if ledger.tokens_left is None or ledger.tokens_left >= 0:
            return False
        self._out_of_budget("tokens")
        return True

    def _out_of_budget(self, which: str) -> None:
        if not self.ended:
            self.end(OutOfBudget(self.collector.partial(), which))
