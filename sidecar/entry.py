"""The command `sidecar`: a health check answered by itself, and everything else by the whole command line.

An image asks for its health every few seconds, and importing the command line takes most of a second of a core.
"""

import gc
import os
import sys
from typing import Final

OBJECTS: Final = 100_000
"""Made before the interpreter looks for cyclic garbage; its own 700 cost a sixth of the start: what is imported stays.
`sidecar serve` sets a number of its own when it has started."""


def main() -> None:
    """Run the command line; does not return."""
    if "health" in sys.argv:
        from sidecar.cli.health import health_alone  # noqa: PLC0415  no other command needs it

        code = health_alone(sys.argv[1:], os.environ, sys.stdout)
        if code is not None:
            sys.exit(code)
    gc.set_threshold(OBJECTS)
    from sidecar.command_line import main as whole  # noqa: PLC0415  this is what a health check must not import

    whole(sys.argv[1:])
