"""Hooks for every test of the repository: those of the clients and plugins too, hence at the top."""

pytest_plugins = ["tests.support.async_tests", "tests.support.named_skips", "pytester"]
