"""The program `sidecar`: answers a health check itself, and runs the complete command line for everything else.

A container's health check runs every few seconds, and importing the command line takes most of a second of a core.
"""

import gc
import os
import sys
from typing import Final

OBJECTS: Final = 100_000
"""The number of new objects after which Python collects cyclic garbage. With the default, 700, collections take a
sixth of the start and free nothing, because imported objects stay. `sidecar serve` sets its own number later."""


def main() -> None:
    """Run the command line; does not return."""
    # Anywhere in the arguments: `health_alone` returns None for another command that only mentions the word.
    if "health" in sys.argv:
        from sidecar.cli.health import health_alone  # noqa: PLC0415  no other command needs it

        code = health_alone(sys.argv[1:], os.environ, sys.stdout)
        if code is not None:
            sys.exit(code)
    # Before the import below, which creates most of the objects.
    gc.set_threshold(OBJECTS)
    from sidecar.command_line import main as whole  # noqa: PLC0415  this is what a health check must not import

    whole(sys.argv[1:])
