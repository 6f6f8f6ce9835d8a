"""Ends what the demo started if the demo itself was killed and could not.

A process of its own, in a session of its own. It reads lines from its standard input, which only the demo holds open:

    group <id>     a process group to end if the demo goes away
    folder <path>  a folder to remove then
    done           the demo has tidied up itself

When the input ends without `done`, the groups get SIGTERM, and SIGKILL after a grace.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

GRACE: Final = 2.0
LOOK_EVERY: Final = 0.05


def watch(lines: Iterable[str]) -> None:
    """Read until the end, then tidy up."""
    groups: list[int] = []
    folders: list[str] = []
    for line in lines:
        kind, _, value = line.strip().partition(" ")
        if kind == "group":
            groups.append(int(value))
        elif kind == "folder":
            folders.append(value)
        elif kind == "done":
            return
    end_groups(groups, GRACE)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def end_groups(groups: Iterable[int], grace: float) -> None:
    """Send SIGTERM to every group, and SIGKILL to those that are still there after `grace` seconds."""
    left = [group for group in groups if _signal(group, signal.SIGTERM)]
    until = time.monotonic() + grace
    while left and time.monotonic() < until:
        time.sleep(LOOK_EVERY)
        left = [group for group in left if _signal(group, 0)]
    for group in left:
        _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Send a signal to a group; return whether it is there."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with suppress(ValueError):
            signal.signal(ignored, signal.SIG_IGN)
    watch(sys.stdin)
