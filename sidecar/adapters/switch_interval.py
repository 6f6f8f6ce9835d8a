"""A short switch interval of the interpreter, while other threads than that of the event loop run Python code."""

import sys
import threading
from typing import Final

SWITCH_SECONDS: Final = 0.0002
"""The switch interval while it is short.

With the default of 5 ms, the event loop would wait that long after each of its system calls; a bind makes several.
"""


class ShortSwitchInterval:
    """Keeps the interval short from the first `__enter__` to the last `__exit__`.

    There is one interval for the whole interpreter, so the users are counted. If each of them restored the value that
    it found, one that ends would end the short interval of the others, or leave it behind for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._usual = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_SECONDS)
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._usual)


SHORT_SWITCH_INTERVAL: Final = ShortSwitchInterval()
