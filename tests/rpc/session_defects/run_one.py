"""Runs one test of the lane without pytest: `python -m tests.rpc.session_defects.run_one <module> <test>`.

Ends with 0 if it passes, with `BROKEN` if an assertion, or its time, fails it.
"""

import asyncio
import importlib
import sys
import traceback
from typing import Final

BROKEN: Final = 3
SECONDS: Final = 8.0
"""The tests take a tenth of a second; what a defect keeps waiting is given up then."""


async def _within(module: str, test: str) -> None:
    async with asyncio.timeout(SECONDS):
        await getattr(importlib.import_module(f"tests.rpc.{module}"), test)()


def main() -> int:
    """Run it."""
    try:
        asyncio.run(_within(sys.argv[1], sys.argv[2]))
    except (AssertionError, TimeoutError):
        traceback.print_exc()
        return BROKEN
    return 0


if __name__ == "__main__":
    sys.exit(main())
