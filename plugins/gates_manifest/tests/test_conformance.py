"""The gate client `manifest` passes the suite that every gate client has to."""

from pathlib import Path

import pytest

from plugins.gates_manifest.tests.manifests import ManifestBench
from sidecar_conformance.gate_client import GateClientSuite


class TestManifest(GateClientSuite):
    """Nothing makes an ordinary file hang."""

    closed = frozenset({"hang"})

    @pytest.fixture
    def bench(self, tmp_path: Path) -> ManifestBench:
        """Make one."""
        return ManifestBench(tmp_path)
