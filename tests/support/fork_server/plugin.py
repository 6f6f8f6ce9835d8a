"""Lets the processes that tests start be copies of a warm one."""

import os
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.fork_server.popen import WarmPopen, WarmServer, install

REAL: Final = os.environ.get("SIDECAR_TESTS_START") == "real" or not sys.platform.startswith("linux")
SERVER: Final = WarmServer()
WarmPopen.server = SERVER
if not REAL:
    install(SERVER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Start as always what a test marked `real_start` starts."""
    SERVER.wanted = item.get_closest_marker("real_start") is None
    return (yield)


def pytest_unconfigure() -> None:
    """End the server."""
    SERVER.close()
