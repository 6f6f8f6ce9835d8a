"""The connector `mcp` passes the suite that every connector has to, against a server made with the official SDK."""

import pytest

from plugins.connector_mcp.tests.service import McpBench
from sidecar_conformance.connector import ConnectorSuite


class TestWithSessions(ConnectorSuite):
    """Over streamable HTTP as older servers speak it: a handshake, and sessions."""

    @pytest.fixture
    def bench(self) -> McpBench:
        """Make one."""
        return McpBench(legacy=True)


class TestWithoutSessions(ConnectorSuite):
    """Over streamable HTTP as it is since the revision of July 2026."""

    @pytest.fixture
    def bench(self) -> McpBench:
        """Make one."""
        return McpBench()
