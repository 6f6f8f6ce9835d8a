"""Hooks for every test of the repository: those of the clients and plugins too, hence at the top."""

from hypothesis import settings

pytest_plugins = [
    "tests.support.async_tests",
    "tests.support.named_skips",
    "tests.support.packing",
    "tests.support.postgres",
    "tests.support.whole_demo",
    "pytester",
]

# A property that takes long on a busy machine is not wrong.
settings.register_profile("no wall clock", deadline=None, print_blob=True)
settings.load_profile("no wall clock")
