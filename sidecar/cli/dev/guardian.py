"""The program that ends the processes of `sidecar dev` when `sidecar dev` ends, even if it is killed.

`sidecar dev` starts it as a separate program and keeps its standard input open. It reads lines there: `+GROUP` (guard
this process group) and `-GROUP` (it has ended). At the end of the input it ends the remaining groups. It uses only the
standard library, so that it starts quickly.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
PAUSE = 0.02


def guarded(lines: Iterable[str]) -> set[int]:
    """Return the groups that are guarded when the input ends."""
    groups: set[int] = set()
    for line in lines:
        group = int(line[1:])
        groups = groups | {group} if line[0] == "+" else groups - {group}
    return groups


def end(groups: set[int], grace: float) -> None:
    """Send SIGTERM to groups, and SIGKILL to those that still exist after the grace period."""
    remaining = {group for group in groups if sent(group, signal.SIGTERM)}
    until = time.monotonic() + grace
    while remaining and time.monotonic() < until:
        # Polled, because a process can wait only for its own children, and not for all processes of a group.
        time.sleep(PAUSE)
        remaining = {group for group in remaining if sent(group, 0)}
    for group in remaining:
        sent(group, signal.SIGKILL)


def sent(group: int, number: int) -> bool:
    """Send a signal to a group; return whether the group exists."""
    # On macOS, a group whose processes have ended but were not awaited gives `PermissionError`.
    with suppress(ProcessLookupError, PermissionError):
        # Signal 0 sends nothing; it only shows whether the group exists.
        os.killpg(group, number)
        return True
    return False


if __name__ == "__main__":
    end(guarded(sys.stdin), GRACE)
