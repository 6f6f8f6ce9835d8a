"""Hooks for every test of the repository: those of the clients and plugins too, hence at the top."""

import gc
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
