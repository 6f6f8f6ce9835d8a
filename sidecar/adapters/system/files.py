"""File descriptors: how many the process may have, how many it has, and how many of them connections may take."""

import os
import resource
from typing import Final

KEPT_FREE: Final = 192
"""For operators, probes, the record, logs, and channels to hosts and data services, whatever the listeners take."""
LEAST: Final = 8
"""Connections of a listener, even if that leaves less for the rest."""
LISTENERS: Final = 2
"""The dispatch socket and the agents socket. The operators' has a limit of its own, which is part of `KEPT_FREE`."""


def files_limit() -> int:
    """Return how many file descriptors the process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def files_open() -> int:
    """Return how many are open; the limit if none is left for looking."""
    try:
        return len(os.listdir("/dev/fd")) - 1  # one of them is the directory's
    except OSError:
        return files_limit()


def connections_within(limit: int, wanted: int) -> int:
    """Return how many connections a listener may have of `wanted`, if the process may open `limit` files."""
    return min(wanted, max(LEAST, (limit - KEPT_FREE) // LISTENERS))
