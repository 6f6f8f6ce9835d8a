"""Runs `async def` tests, each in a fresh event loop and within a bounded time."""

import asyncio
import inspect
from typing import Any, Final

import pytest

SECONDS: Final = 60.0
"""How long an async test may take unless it says `@pytest.mark.seconds(limit)`."""
BUSY: Final = 4
"""How many times as long it may take, as other work may have most of the machine: only what hangs is to be ended."""
MOST: Final = 1140.0
"""Less than `faulthandler_timeout`, which would end the whole worker."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the test if it is a coroutine function; leave every other test to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    mark = pyfuncitem.get_closest_marker("seconds")
    said = float(mark.args[0]) if mark else SECONDS
    limit = max(said, min(said * BUSY, MOST))
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: value for name, value in pyfuncitem.funcargs.items() if name in wanted}
    with asyncio.Runner(debug=False) as runner:
        runner.run(_within(limit, pyfuncitem, arguments))
    return True


async def _within(limit: float, item: pytest.Function, arguments: dict[str, Any]) -> None:
    try:
        async with asyncio.timeout(limit) as guard:
            await item.obj(**arguments)
    except TimeoutError:
        if guard.expired():
            pytest.fail(f"still running after {limit:g} s; raise the limit with @pytest.mark.seconds(...)")
        raise
