"""Counts the objects that a process holds on to, by type: what grows with use is found without looking at memory."""

import gc
from collections import Counter
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

PASSING: Final = (FrameType, CodeType, FunctionType, BuiltinFunctionType, ModuleType, type)
"""Neither made for a turn, nor of any interest: what they hold is found from elsewhere."""


def live_objects() -> Counter[str]:
    """Return how many objects of each type can be reached from any container, texts and numbers included.

    The garbage collector knows containers only, and not even dictionaries of texts; so what they refer to is followed.
    """
    gc.collect()
    seen: dict[int, Any] = {}
    waiting = [each for each in gc.get_objects() if not isinstance(each, PASSING)]
    mine = {id(seen), id(waiting)}
    while waiting:
        each = waiting.pop()
        if id(each) in seen or id(each) in mine or isinstance(each, PASSING):
            continue
        seen[id(each)] = each
        waiting += gc.get_referents(each)
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in seen.values())
