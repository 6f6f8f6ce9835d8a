"""Runs one test without pytest: `python -m tests.rpc.load_defects.run_one <folder> <module> <test>`.

Ends with 0 if it passes, with `BROKEN` if an assertion, its time, or the answer to a call fails it.
"""

import asyncio
import importlib
import inspect
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from grpc.aio import AioRpcError

from tests.rpc.session_defects.run_one import BROKEN

SECONDS: Final = 60.0
"""The tests take at most three seconds; what a defect keeps waiting is given up then."""


async def _within(folder: str, module: str, test: str) -> None:
    """Run the test, with a folder of its own if it asks for one."""
    run = getattr(importlib.import_module(f"tests.{folder}.{module}"), test)
    with TemporaryDirectory() as place:
        given = {"tmp_path": Path(place)} if "tmp_path" in inspect.signature(run).parameters else {}
        async with asyncio.timeout(SECONDS):
            await run(**given)


def main() -> int:
    """Run it."""
    try:
        asyncio.run(_within(*sys.argv[1:]))
    except (AssertionError, TimeoutError, AioRpcError):
        traceback.print_exc()
        return BROKEN
    return 0


if __name__ == "__main__":
    sys.exit(main())
