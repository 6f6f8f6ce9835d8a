"""Ends process groups when its standard input ends, so that none outlives `sidecar dev`, even if that is killed.

A separate program that uses only the standard library. It reads lines `+GROUP` (guard it) and `-GROUP` (it has ended).
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
    left = {group for group in groups if sent(group, signal.SIGTERM)}
    until = time.monotonic() + grace
    while left and time.monotonic() < until:
        time.sleep(PAUSE)
        left = {group for group in left if sent(group, 0)}
    for group in left:
        sent(group, signal.SIGKILL)


def sent(group: int, number: int) -> bool:
    """Send a signal to a group; return whether the group exists."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


if __name__ == "__main__":
    end(guarded(sys.stdin), GRACE)
