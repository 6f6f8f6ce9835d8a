"""The gate client `http` passes the suite that every gate client has to, against the reference service."""

from pathlib import Path

import pytest

from plugins.gates_http.tests.service import HttpBench
from sidecar_conformance.gate_client import GateClientSuite


class TestHttp(GateClientSuite):
    """Over real HTTP."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> HttpBench:
        """Make one."""
        return HttpBench(tmp_path)
