"""Reports a blocked event loop, and names the plugin that blocks it.

One blocking call stops every turn of every vertical, and the loop itself cannot report it. A thread therefore sends a
request to the loop, and reads the loop's stack if no answer arrives in time. The thread cannot end the call, because
Python has no safe way to do that. C code that holds the interpreter lock delays the report until the lock is released.
Source: issue "Trust", section 2.
"""

import sys
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread, get_ident
from types import FrameType
from typing import Final, Protocol

from msgspec import Struct

EVERY: Final = 0.25
"""Seconds between two requests. Four wake-ups per second cost a thousandth of a core."""
PATIENCE: Final = 0.25
"""Seconds without an answer after which the loop counts as held up."""
FRAMES_SHOWN: Final = 12


class Holder(Struct, frozen=True):
    """The place at which the loop was blocked.

    Attributes:
        plugin: the installed plugin whose code is on the stack; empty if there is none.
        frame: the plugin's innermost frame; without a plugin the innermost frame outside the standard library.
        stack: innermost frame first.
    """

    plugin: str
    frame: str
    stack: tuple[str, ...]


class LoopObserver(Protocol):
    """Receives reports about the loop; must not raise."""

    def answered(self, seconds: float) -> None:
        """Receive the time that the loop took for an answer. Called in the loop."""

    def held_up(self, holder: Holder) -> None:
        """Receive the report that the loop is blocked. Called in the watchdog's thread."""

    def released(self, holder: Holder, seconds: float) -> None:
        """Receive the report that the loop runs again. Called in the loop."""


def holder_of(innermost: FrameType | None, plugins: Mapping[str, str]) -> Holder:
    """Return what blocks a thread.

    Args:
        innermost: the thread's current frame.
        plugins: names of installed plugins by their top-level module.
    """
    stack: list[str] = []
    plugin, of_plugin, outside = "", "", ""
    while innermost is not None:
        module = str(innermost.f_globals.get("__name__", "?"))
        top = module.partition(".")[0]
        text = f"{module}:{innermost.f_lineno} {innermost.f_code.co_qualname}"
        if not of_plugin and top in plugins:
            plugin, of_plugin = plugins[top], text
        if not outside and top not in sys.stdlib_module_names:
            outside = text
        stack.append(text)
        innermost = innermost.f_back
    return Holder(plugin, of_plugin or outside or (stack[0] if stack else "?"), tuple(stack[:FRAMES_SHOWN]))


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
        self._of_loop = get_ident()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="loop-watchdog", daemon=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the context is open."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            asked, answer = time.monotonic(), Event()
            if not self._in_loop(self._answer, asked, answer):
                return
            if not answer.wait(self._patience):
                self._hold_up(asked, answer)

    def _answer(self, asked: float, answer: Event) -> None:
        answer.set()
        self._observer.answered(time.monotonic() - asked)

    def _hold_up(self, asked: float, answer: Event) -> None:
        """Report a hold-up, wait for its end, and report that."""
        holder = holder_of(sys._current_frames().get(self._of_loop), self._plugins)  # noqa: SLF001  the documented way
        if answer.is_set():
            return  # the call ended before the stack was read; the stack would show, and blame, later code
        self._observer.held_up(holder)
        while not answer.wait(self._every):
            if self._stopped.is_set():
                return
        self._in_loop(self._observer.released, holder, time.monotonic() - asked)

    def _in_loop(self, call: Callable[..., object], *given: object) -> bool:
        """Schedule a call in the loop; return False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(call, *given)
        except RuntimeError:
            return False
        return True
