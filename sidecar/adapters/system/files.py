"""File descriptors: how many the process may have, how many it has, and how many of them connections may take."""

import os
import resource
from typing import Final

KEPT_FREE: Final = 192
"""For operators, probes, the record, logs, and channels to hosts and data services, whatever the listeners take."""
LEAST: Final = 8
"""Connections of a listener, even if that leaves less for the rest."""


def files_limit() -> int:
    """Return how many file descriptors the process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def files_open() -> int:
    """Return how many are open; the limit if none is left for looking."""
    try:
        return len(os.listdir("/dev/fd")) - 1  # one of them is the directory's
    except OSError:
        return files_limit()


def connections_within(limit: int, wanted: int, listeners: int) -> int:
    """Return how many connections each listener may have of `wanted`, if the process may open `limit` files.

    Those of operators have limits of their own, which are part of `KEPT_FREE`.
    """
    return min(wanted, max(LEAST, (limit - KEPT_FREE) // listeners))
