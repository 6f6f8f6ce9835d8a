"""An asyncio event loop with virtual time: a wait takes no real time, and a seed decides the order of callbacks.

Replays of recorded turns and simulations use it. The same seed gives the same run on each machine. A *step* is the
execution of one callback. Callbacks that one step has scheduled keep their order, as asyncio guarantees. Callbacks of
different steps may overtake each other, as they do in a real loop with sockets.
"""

import asyncio
import heapq
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from hashlib import sha256
from typing import Any, Protocol, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Given = TypeVarTuple("Given")


class Deadlock(Exception):
    """No callback and no timer is left, but the work is not complete."""


class Runaway(Exception):
    """More steps ran than permitted, so the work probably loops forever."""


class Chooser(Protocol):
    """Returns the random numbers by which the loop chooses the next callback, e.g. `random.Random`."""

    def random(self) -> float:
        """Return a number from 0 up to, but not including, 1."""


class InOrder:
    """A `Chooser` that always chooses the callback that became ready first."""

    def random(self) -> float:
        """Return 0."""
        return 0.0


class Trace:
    """A digest of all steps of a run, by which two runs can be compared; on request also a readable list of them."""

    def __init__(self, *, readable: bool = False) -> None:
        self._hash = sha256()
        self.lines: list[str] | None = [] if readable else None

    def add(self, time: float, what: str) -> None:
        """Record that `what` happened at `time`, in virtual seconds."""
        # Rounded, because the last digits of a sum of floats depend on the order of the additions.
        line = f"{time:.6f} {what}"
        self._hash.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    def digest(self) -> str:
        """Return the first 16 hexadecimal digits of the hash over all steps so far."""
        return self._hash.hexdigest()[:16]


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop. Its times are seconds since its start.

    Args:
        chance: chooses the next of the ready callbacks.
        trace: receives each step.
        most_steps: maximum number of steps, after which the loop raises `Runaway`.
    """

    def __init__(self, chance: Chooser, trace: Trace, most_steps: int = 300_000) -> None:
        super().__init__()
        self.set_debug(False)
        self._chance = chance
        self._trace = trace
        self._most_steps = most_steps
        self._now = 0.0
        # Ready callbacks, each with its origin: the number of the step that scheduled it.
        self._queue: list[tuple[int, asyncio.Handle]] = []
        # A heap of (time, serial number, timer).
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._origin = 0
        self._serial = 0
        self.steps = 0
        self.tasks: list[asyncio.Task[Any]] = []
        self._thread = threading.get_ident()

    def time(self) -> float:
        """Return virtual seconds."""
        return self._now

    def call_soon(
        self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback for one of the next steps."""
        handle = asyncio.Handle(callback, args, self, context)
        self._queue.append((self._origin, handle))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.Handle:
        """Refuse other threads, because their actions are not reproducible."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("a thread cannot be simulated")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[[*Given], Result], *args: *Given) -> asyncio.Future[Result]:
        """Refuse, because the order of threads is not reproducible."""
        raise RuntimeError("a thread cannot be simulated")

    def call_at(
        self,
        when: float,
        callback: Callable[[*Given], object],
        *args: *Given,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback at a virtual time."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._serial += 1
        # The serial number decides between equal times, so that handles are never compared.
        heapq.heappush(self._timers, (when, self._serial, timer))
        return timer

    def create_task(self, coro: Any, *, name: Any = None, **options: Any) -> asyncio.Task[Any]:
        """Create a task with a name that is the same in each run."""
        task: asyncio.Task[Any] = super().create_task(coro, name=name or f"task {len(self.tasks)}", **options)
        self.tasks.append(task)
        return task

    def pending(self) -> list[str]:
        """Return the names of the tasks that have not ended."""
        return [task.get_name() for task in self.tasks if not task.done()]

    def _run_once(self) -> None:
        """Execute one step. `run_forever` of asyncio calls this method in a loop."""
        self._ripen()
        if not self._queue:
            if not self._timers:
                raise Deadlock(f"nothing can happen any more; these wait: {', '.join(self.pending())}")
            # Time jumps to the next timer only when no callback is ready.
            self._now = max(self._now, self._timers[0][0])
            self._ripen()
            if not self._queue:
                return
        handle = self._next()
        if handle.cancelled():
            return
        self.steps += 1
        if self.steps > self._most_steps:
            raise Runaway(f"more than {self._most_steps} steps; these run: {', '.join(self.pending())}")
        # All callbacks that this one schedules get this origin, and so keep their order.
        self._origin = self.steps
        self._trace.add(self._now, _name_of(handle))
        handle._run()  # noqa: SLF001  asyncio's own loop does the same

    def _ripen(self) -> None:
        """Move due timers to the ready callbacks, each with an origin of its own: timers may overtake each other."""
        while self._timers and (self._timers[0][0] <= self._now or self._timers[0][2].cancelled()):
            _, serial, timer = heapq.heappop(self._timers)
            if not timer.cancelled():
                # Negative, so that it cannot equal the number of a step.
                self._queue.append((-serial, timer))

    def _next(self) -> asyncio.Handle:
        """Remove and return a ready callback by chance, but never before an older one of the same origin."""
        queue = self._queue
        if len(queue) == 1:
            return queue.pop()[1]
        origin = queue[int(self._chance.random() * len(queue))][0]
        # Of the chosen origin the oldest: asyncio guarantees the order of the callbacks that one step has scheduled.
        place = next(place for place, (each, _) in enumerate(queue) if each == origin)
        return queue.pop(place)[1]


def _name_of(handle: asyncio.Handle) -> str:
    """Return the name of the task that a callback continues, or of the callback, for the trace."""
    callback: Any = getattr(handle, "_callback", None)
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return getattr(callback, "__qualname__", type(callback).__name__)


def simulate(loop: VirtualLoop, work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` on the loop until it ends, close the loop, and return the result. Raises `Deadlock`, `Runaway`."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
