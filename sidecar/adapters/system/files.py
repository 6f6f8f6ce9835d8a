"""File descriptors: the process's limit, the number of open ones, and the share for connections."""

import os
import resource
from typing import Final

KEPT_FREE: Final = 192
"""Descriptors for operators, probes, the record, logs, and channels to hosts and data services."""
LEAST: Final = 8
"""The least connections of a listener, even if that leaves fewer descriptors for the rest."""


def files_limit() -> int:
    """Return how many file descriptors the process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def files_open() -> int:
    """Return the number of open descriptors; the limit if none is left to count them."""
    try:
        return len(os.listdir("/dev/fd")) - 1  # the listing itself uses one
    except OSError:
        return files_limit()


def connections_within(limit: int, wanted: int, listeners: int) -> int:
    """Return how many of `wanted` connections each listener may have, if the process may open `limit` files.

    Operators' listeners have separate limits, which are part of `KEPT_FREE`.
    """
    return min(wanted, max(LEAST, (limit - KEPT_FREE) // listeners))
