"""Counts calls of Python functions: the same number in each run, whatever the machine does meanwhile."""

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple

PRODUCT: Final = "sidecar."
INLINED: Final = ("<listcomp>", "<setcomp>", "<dictcomp>")
"""Python 3.12 and later make no call of them."""


class Called(NamedTuple):
    """A function, by its module and its name there. A coroutine is called each time it is resumed."""

    module: str
    function: str


class CallCounter:
    """Counts while it is on, in each thread whose profile function `watch` is.

    Attributes:
        counted: calls of Python functions.
        builtin: calls of functions written in C, by module.
        switches: by module of the sidecar, how many calls entered it from another one of its modules: what a reader who
            follows the calls has to open.
    """

    def __init__(self) -> None:
        """Begin at 0, switched off."""
        self.counted: Counter[Called] = Counter()
        self.builtin: Counter[str] = Counter()
        self.switches: Counter[str] = Counter()
        self._last = ""
        self.on = False

    def watch(self, frame: FrameType, event: str, called: Any) -> None:
        """Take a profile event of the interpreter."""
        if not self.on:
            return
        if event == "call" and not frame.f_code.co_qualname.endswith(INLINED):
            module = str(frame.f_globals.get("__name__", ""))
            self.counted[Called(module, frame.f_code.co_qualname)] += 1
            if module != self._last and module.startswith(PRODUCT):
                self.switches[module] += 1
                self._last = module
        elif event == "c_call":
            owner = type(getattr(called, "__self__", None))
            self.builtin[str(getattr(called, "__module__", None) or owner.__module__)] += 1

    @contextmanager
    def counting(self) -> Iterator["CallCounter"]:
        """Count calls in this thread, and in those that it is already the profile function of.

        Without the garbage collector: a collection calls back, and ends what other tests have left.
        """
        before, collects = sys.getprofile(), gc.isenabled()
        self.counted, self.builtin, self.switches, self._last = Counter(), Counter(), Counter(), ""
        gc.disable()
        self.on = True
        sys.setprofile(self.watch)
        try:
            yield self
        finally:
            sys.setprofile(before)
            self.on = False
            if collects:
                gc.enable()
