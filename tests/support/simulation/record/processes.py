"""Processes in virtual time: killed as by SIGKILL, stopped and continued as by SIGSTOP and SIGCONT.

Whatever runs for a process carries it in its context: tasks, timers, callbacks. The loop asks before each step whose it
is. A dead process's step is thrown away, so that nothing of it ever runs again, not even a `finally`; a paused one's is
put aside until the process goes on, with the state it had.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar
from enum import StrEnum, unique
from typing import Any, Final, Optional, TypeVar

from sidecar.adapters.virtual_time import VirtualLoop

Result = TypeVar("Result")


class ConnectionLost(Exception):
    """The process at the other end is gone, or did not answer in time."""


@unique
class State(StrEnum):
    """How a process is."""

    RUNS = "runs"
    PAUSED = "paused"
    DEAD = "dead"


_PROCESS: Final[ContextVar[Optional["Process"]]] = ContextVar("process", default=None)


class ProcessLoop(VirtualLoop):
    """A virtual loop that knows whose each step is; steps of nobody always run."""

    def _next(self) -> asyncio.Handle:
        handle = super()._next()
        process = handle._context.get(_PROCESS)  # type: ignore[attr-defined]  # nothing public says it
        if process is None or process.state is State.RUNS:
            return handle
        if process.state is State.DEAD:
            handle.cancel()  # a cancelled handle is skipped
            return handle
        process.put_aside(handle)
        skipped = asyncio.Handle(int, (), self)
        skipped.cancel()
        return skipped

    def go_on_with(self, handles: list[asyncio.Handle]) -> None:
        """Let steps that were put aside run now, in their order."""
        self._serial += 1
        self._queue.extend((-self._serial, handle) for handle in handles)

    def bury(self) -> None:
        """Close what never ended: nobody is to be told of it when it is collected."""
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is meant to be
                with suppress(BaseException):  # a `finally` of the dead may await, or raise
                    task.get_coro().close()
        self.tasks.clear()


class Process:
    """What lives and dies as one."""

    def __init__(self, loop: ProcessLoop, name: str) -> None:
        """Begin to run."""
        self.name = name
        self.state = State.RUNS
        self._loop = loop
        self._context = Context()
        self._context.run(_PROCESS.set, self)
        self._aside: list[asyncio.Handle] = []
        self._waiting: list[asyncio.Future[Any]] = []
        self._pauses: list[tuple[float, float]] = []

    def was_paused(self, at: float) -> bool:
        """Say whether it stood still at a time."""
        return any(begin <= at < end for begin, end in self._pauses)

    def put_aside(self, handle: asyncio.Handle) -> None:
        """Keep a step for later."""
        self._aside.append(handle)

    def start(self, work: Coroutine[Any, Any, Result], name: str) -> asyncio.Task[Result]:
        """Run `work` as part of the process."""
        return self._loop.create_task(work, name=name, context=self._context.copy())

    def within(self, call: Callable[[], Result]) -> Result:
        """Do something at once as part of the process."""
        return self._context.copy().run(call)

    def kill(self) -> None:
        """End it now; connections break."""
        if self.state is State.DEAD:
            return
        self.state = State.DEAD
        self._aside.clear()
        broken, self._waiting = self._waiting, []
        for answer in broken:
            self._loop.call_soon(_break, answer, context=Context())

    def pause(self) -> None:
        """Stop it where it is."""
        if self.state is State.RUNS:
            self.state = State.PAUSED
            self._pauses.append((self._loop.time(), float("inf")))

    def go_on(self) -> None:
        """Let it go on, not knowing that it was stopped."""
        if self.state is State.PAUSED:
            self.state = State.RUNS
            self._pauses.append((self._pauses.pop()[0], self._loop.time()))
            aside, self._aside = self._aside, []
            self._loop.go_on_with(aside)

    async def ask(self, work: Coroutine[Any, Any, Result], name: str, patience: float) -> Result:
        """Have the process do `work` for somebody outside, who waits for `patience` seconds.

        Raises:
            ConnectionLost, and what `work` raises.
        """
        if self.state is State.DEAD:
            work.close()
            raise ConnectionLost("nobody is there")
        answer: asyncio.Future[Result] = self._loop.create_future()
        task = self.start(work, name)
        task.add_done_callback(lambda done: _pass_on(done, answer))
        self._waiting.append(answer)
        try:
            async with asyncio.timeout(patience):
                return await answer
        except TimeoutError:
            raise ConnectionLost("no answer in time") from None
        finally:
            if answer in self._waiting:
                self._waiting.remove(answer)
            if not task.done():  # if the process is dead by now, that is thrown away, too
                self._loop.call_soon(task.cancel, context=self._context.copy())


def _pass_on(task: asyncio.Task[Any], answer: asyncio.Future[Any]) -> None:
    if answer.done():
        return
    if task.cancelled():
        answer.set_exception(ConnectionLost("given up"))
    elif (error := task.exception()) is not None:
        answer.set_exception(error)
    else:
        answer.set_result(task.result())


def _break(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(ConnectionLost("the process is gone"))
