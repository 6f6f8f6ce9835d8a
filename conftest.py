"""Hooks for every test of the repository: those of the clients and plugins too, hence at the top."""

import gc
import signal
from typing import Final

import pytest
from hypothesis import settings

pytest_plugins = [
    "tests.support.async_tests",
    "tests.support.failed_tests",
    "tests.support.fork_server.plugin",
    "tests.support.named_skips",
    "tests.support.own_modules",
    "tests.support.packing",
    "tests.support.postgres",
    "tests.support.verified_records",
    "tests.support.whole_demo",
    "pytester",
]

# A property that takes long on a busy machine is not wrong.
settings.register_profile("no wall clock", deadline=None, print_blob=True)
settings.load_profile("no wall clock")

STOPPING: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)
"""A process inherits the signals that its parent ignores. `nohup` ignores SIGHUP; a shell without job control ignores
SIGINT and SIGQUIT in background commands. Tests that stop processes by these signals would wait for ever."""
for _number in STOPPING:
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)

USUAL: Final = gc.get_threshold()
gc.set_threshold(100_000)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look for cyclic garbage as usual from here on, but never again in the million objects that make up the tests.

    To look through all of them, again and again, takes a sixth of the time of collecting, and of the tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*USUAL)
