"""The command `sidecar`: a health check answered by itself, and everything else by the whole command line.

An image asks for its health every few seconds, and importing the command line takes most of a second of a core.
"""

import os
import sys

from sidecar.cli.health import health_alone


def main() -> None:
    """Run the command line; does not return."""
    code = health_alone(sys.argv[1:], os.environ, sys.stdout)
    if code is not None:
        sys.exit(code)
    from sidecar.__main__ import main as whole  # noqa: PLC0415  this is what a health check must not import

    whole()
