"""When operations begin: at times fixed in advance (open loop), or when another one has ended (closed loop).

In an open loop, latency counts from the time at which an operation was *due*. A server that stalls for a second is
thereby charged with everything that fell due in that second, as its users would; a generator that waits for answers
before it sends more would measure one slow operation and leave the others out (coordinated omission).

The clock is the event loop's: `time()` of the standard loop counts nanoseconds, and a test may bring a loop of its own.
"""

import asyncio
import math
from asyncio import Event, Semaphore, TaskGroup
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from subagents_loadgen.plan import Arrivals, Load
from subagents_loadgen.wire.operation import Finished

Operation = Callable[[int], Awaitable[Finished]]
"""Runs operation number n, from 0. Does not raise for failures of the server; the result contains them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One operation that has ended. Times are of the loop's clock, in seconds.

    Attributes:
        intended: time at which the operation was due.
        sent: time at which it began.
        ended: time at which it ended.
        measured: whether the sample counts; False during the warm-up.
        finished: result of the operation.
    """

    intended: float
    sent: float
    ended: float
    measured: bool
    finished: Finished


Note = Callable[[Sample], None]


@dataclass(slots=True)
class Progress:
    """The progress of one stage.

    Attributes:
        began, ends: start and end of the measured part, by the loop's clock, in seconds.
        running: number of running operations.
        most_running: maximum of `running` so far.
        started: number of operations that have begun or are unsent.
        unsent: number of operations that were due but did not begin, because `in_flight` others ran until the grace
            was over.
    """

    began: float = 0.0
    ends: float = 0.0
    running: int = 0
    most_running: int = 0
    started: int = 0
    unsent: int = 0


def arrival_times(load: Load, seed: int) -> Iterator[float]:
    """Yield the times at which operations are due, in seconds from the start; endless, and independent of responses."""
    if load.rate is None:
        raise ValueError("a closed loop has no arrival times")
    chance = Random(f"arrivals:{seed}")  # noqa: S311  spreads load, guards nothing
    number, due, at = 0, 0.0, 0.0
    while True:
        yield at
        number += 1
        due = number if load.arrivals is Arrivals.EVEN else due + chance.expovariate(1.0)
        at = _when(due, load.rate, load.rate if load.ramp_to is None else load.ramp_to, load.warm_up + load.seconds)


def _when(due: float, first: float, last: float, seconds: float) -> float:
    """Return when so many operations are due, at a rate that goes evenly from the first to the last."""
    slope = (last - first) / seconds if seconds else 0.0
    if not slope:
        return due / first
    root = first * first + 2 * slope * due
    return (math.sqrt(root) - first) / slope if root >= 0 else math.inf


async def run_load(load: Load, seed: int, operation: Operation, note: Note, stop: Event) -> Progress:
    """Carry out a load and wait for the last operation to end.

    Args:
        load: how much.
        seed: of the arrival times.
        operation: is called with 0, 1, 2, ...
        note: is told of each that has ended.
        stop: once set, nothing more begins.
    """
    runner = _Run(load, operation, note, stop)
    await (runner.closed() if load.rate is None else runner.open(arrival_times(load, seed)))
    return runner.progress


class _Run:
    def __init__(self, load: Load, operation: Operation, note: Note, stop: Event) -> None:
        self._load = load
        self._operation = operation
        self._note = note
        self._stop = stop
        self._clock = asyncio.get_running_loop().time
        self._start = self._clock()
        self._measured = 0
        began = self._start + load.warm_up
        self.progress = Progress(began, began + load.seconds)

    async def closed(self) -> None:
        async with TaskGroup() as workers:
            for _ in range(self._load.in_flight):
                workers.create_task(self._one_after_the_other())

    async def _one_after_the_other(self) -> None:
        while not self._stop.is_set() and self._is_due(now := self._clock()):
            await self._carry_out(self._next(now), now)

    async def open(self, arrivals: Iterator[float]) -> None:
        places = Semaphore(self._load.in_flight)
        async with TaskGroup() as running:
            for offset in arrivals:
                intended = self._start + offset
                if not self._is_due(intended) or await self._stopped_before(intended):
                    return
                number = self._next(intended)
                if await self._got_place(places):
                    running.create_task(self._carry_out(number, intended)).add_done_callback(lambda _: places.release())
                else:
                    self.progress.unsent += 1

    def _is_due(self, at: float) -> bool:
        enough = self._load.requests is not None and self._measured >= self._load.requests
        return at < self.progress.ends and not enough

    def _next(self, intended: float) -> int:
        self.progress.started += 1
        self._measured += self._is_measured(intended)
        return self.progress.started - 1

    def _is_measured(self, intended: float) -> bool:
        return intended >= self.progress.began

    async def _stopped_before(self, at: float) -> bool:
        """Wait until `at`, or until the run is stopped; return whether it is stopped."""
        if at > self._clock():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(at):
                    await self._stop.wait()
        return self._stop.is_set()

    async def _got_place(self, places: Semaphore) -> bool:
        """Wait for a place, at most until the grace is over."""
        latest = self.progress.ends + self._load.grace
        if self._clock() >= latest:
            return False
        if not places.locked():
            return await places.acquire()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(latest):
                return await places.acquire()
        return False

    async def _carry_out(self, number: int, intended: float) -> None:
        progress = self.progress
        progress.running += 1
        progress.most_running = max(progress.most_running, progress.running)
        sent = self._clock()
        try:
            finished = await self._operation(number)
        finally:
            progress.running -= 1
        ended = finished.ended if finished.ended is not None else self._clock()
        self._note(Sample(intended, sent, ended, self._is_measured(intended), finished))
