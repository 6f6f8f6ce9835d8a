"""Runs one test without pytest: `python -m tests.rpc.session_defects.run_one <seconds> <folder> <module> <test>`.

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

BROKEN: Final = 3


async def _within(seconds: str, folder: str, module: str, test: str) -> None:
    """Run the test, with a folder of its own if it asks for one."""
    run = getattr(importlib.import_module(f"tests.{folder}.{module}"), test)
    with TemporaryDirectory() as place:
        given = {"tmp_path": Path(place)} if "tmp_path" in inspect.signature(run).parameters else {}
        async with asyncio.timeout(float(seconds)):
            running = run(**given)
            if inspect.isawaitable(running):
                await running


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
