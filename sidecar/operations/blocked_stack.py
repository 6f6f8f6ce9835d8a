"""Says what blocks a thread: the plugin and the frame, read from the thread's stack."""

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Final

from msgspec import Struct

FRAMES_SHOWN: Final = 12
"""The most frames of the stack in one report."""


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
        # The plugin's innermost frame and not the innermost of all, which may be a library that the plugin calls.
        if not of_plugin and top in plugins:
            plugin, of_plugin = plugins[top], text
        if not outside and top not in sys.stdlib_module_names:
            outside = text
        stack.append(text)
        innermost = innermost.f_back
    return Holder(plugin, of_plugin or outside or (stack[0] if stack else "?"), tuple(stack[:FRAMES_SHOWN]))
