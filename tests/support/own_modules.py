"""Ends a run in which pytest has taken the tests of one file for those of another file with the same name."""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Compare each file with the module that pytest has made of it. Raises `UsageError`."""
    for module in {item.getparent(pytest.Module) for item in items}:
        if module is not None and Path(str(module.obj.__file__)) != module.path:
            raise pytest.UsageError(
                f"{module.path} would not run: pytest has imported {module.obj.__file__} in its place, a module of the "
                "same name; keep `consider_namespace_packages` in pyproject.toml, or rename the file"
            )
