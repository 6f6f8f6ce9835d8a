"""How often the interpreter looks for cyclic garbage."""

import gc
from typing import Final

YOUNG: Final = 50_000
"""Objects made before a look at the newest ones; the interpreter's own 700 are made by three dispatches."""
MIDDLE: Final = 20
OLD: Final = 100


def look_for_garbage_less_often() -> None:
    """Leave alone what the start has made, and look seldom at the rest.

    Call once, when everything is built. Turns and dispatches live for minutes and most are freed by reference counts;
    looking through them all again and again took a third of the sidecar's time (docs/benchmarks.md).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
