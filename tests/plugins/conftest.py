"""Fixtures of the plugin tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.distributions import SitePackages, site_packages


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SitePackages]:
    """A folder on the import path into which a test installs distributions."""
    with site_packages(tmp_path) as packages:
        yield packages
