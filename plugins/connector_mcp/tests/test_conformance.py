"""The connector `mcp` passes the suite that every connector has to, against a server made with the official SDK."""

import pytest

from plugins.connector_mcp.tests.service import McpBench
from sidecar_conformance.connector import ConnectorSuite


class TestMcp(ConnectorSuite):
    """Over streamable HTTP on the loopback."""

    @pytest.fixture
    def bench(self) -> McpBench:
        """Make one."""
        return McpBench()
