"""The flag backend `unleash` passes the suite that every flag backend has to, against a real server."""

from pathlib import Path

import pytest

from plugins.flags_unleash.tests.bench import UnleashBench
from plugins.flags_unleash.tests.unleash import Unleash
from sidecar_conformance.flag_backend import FlagBackendSuite
from sidecar_conformance.flag_switching import FlagSwitchingSuite


@pytest.mark.system
class TestUnleash(FlagBackendSuite):
    """Reading and hints."""

    @pytest.fixture
    def bench(self, unleash: Unleash, tmp_path: Path) -> UnleashBench:
        """Make one."""
        return UnleashBench(unleash, tmp_path)


@pytest.mark.system
class TestSwitching(FlagSwitchingSuite):
    """Through the admin API."""

    @pytest.fixture
    def bench(self, unleash: Unleash, tmp_path: Path) -> UnleashBench:
        """Make one."""
        return UnleashBench(unleash, tmp_path)
