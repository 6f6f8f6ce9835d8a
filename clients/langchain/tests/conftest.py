"""Names the marks that LangChain's standard tests bring along; the plugins which they belong to are switched off."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register them."""
    for mark in ("benchmark", "vcr"):
        config.addinivalue_line("markers", f"{mark}: of LangChain's standard tests of chat models; not used here")
