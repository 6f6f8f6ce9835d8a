"""Reports a blocked event loop, and names the plugin that blocks it.

One blocking call stops all turns, and the loop itself cannot report it. A thread therefore sends a request to the loop
at intervals, and reads the stack of the loop's thread if no answer arrives in time. The watchdog cannot end the call,
because Python has no safe way to do that. C code that holds the interpreter lock delays the report until it releases
the lock. Source: issue "Trust", section 2.
"""

import sys
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread, get_ident
from typing import Final, Protocol

from sidecar.operations.blocked_stack import Holder, holder_of

EVERY: Final = 0.25
"""Seconds between two requests. Four wake-ups per second cost a thousandth of a core."""
PATIENCE: Final = 0.25
"""Seconds without an answer after which the loop counts as held up."""


class LoopObserver(Protocol):
    """Receives reports about the event loop. Its methods must not raise.

    A `Holder` names what blocks the loop: the code that its thread runs, and the plugin that the code belongs to.
    """

    def answered(self, seconds: float) -> None:
        """Receive the time that the loop took for an answer. Called in the loop."""

    def held_up(self, holder: Holder) -> None:
        """Receive the report that the loop is blocked. Called in the watchdog's thread."""

    def released(self, holder: Holder, seconds: float) -> None:
        """Receive the report that the loop runs again. Called in the loop."""


class LoopWatchdog:
    """Watches the event loop of the thread that creates this object.

    Args:
        loop: the running loop of this thread.
        observer: receives every answer and every hold-up.
        plugins: names of installed plugins by their top-level module.
        every: seconds between two requests.
        patience: seconds until a missing answer is reported.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        observer: LoopObserver,
        plugins: Mapping[str, str],
        every: float = EVERY,
        patience: float = PATIENCE,
    ) -> None:
        self._loop = loop
        self._observer = observer
        self._plugins = plugins
        self._every = every
        self._patience = patience
        # The thread whose stack is read later; hence this object must be created in the loop's thread.
        self._loop_thread = get_ident()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="loop-watchdog", daemon=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the context is open."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()  # wakes the thread from its wait
            # Waits for one interval at most, because each wait of the thread is that short.
            self._thread.join()

    def _run(self) -> None:
        """Send requests to the loop until the watchdog is stopped or the loop is closed. Runs in the thread."""
        while not self._stopped.wait(self._every):
            asked, answer = time.monotonic(), Event()
            # The loop is closed: there is nothing left to watch.
            if not self._in_loop(self._answer, asked, answer):
                return
            if not answer.wait(self._patience):
                self._hold_up(asked, answer)

    def _answer(self, asked: float, answer: Event) -> None:
        # Before the observer is called: the time that it takes is not part of the answer.
        answer.set()
        self._observer.answered(time.monotonic() - asked)

    def _hold_up(self, asked: float, answer: Event) -> None:
        """Report a hold-up, wait for its end, and report that."""
        holder = holder_of(sys._current_frames().get(self._loop_thread), self._plugins)  # noqa: SLF001  the documented way
        if answer.is_set():
            return  # the call ended before the stack was read; the stack would show, and blame, later code
        # Before the wait for the end: a call that never ends must be reported, too.
        self._observer.held_up(holder)
        while not answer.wait(self._every):
            if self._stopped.is_set():
                return
        self._in_loop(self._observer.released, holder, time.monotonic() - asked)

    def _in_loop(self, call: Callable[..., object], *arguments: object) -> bool:
        """Schedule a call in the loop; return False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            return False
        return True
