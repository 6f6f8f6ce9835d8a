"""The connector that comes with the sidecar passes the suite that every connector has to."""

import pytest

from sidecar.adapters.connector_rest.plugin import sidecar_connectors
from sidecar.policy.making import make_connector
from sidecar.policy.protocols import Connector
from sidecar_conformance.connector import ConnectorSuite
from tests.plugins.scripted_http import HttpBench


class RestBench(HttpBench):
    """Connectors `rest`."""

    def make(self, max_body_bytes: int) -> Connector:
        """Make one as the composition root would."""
        (spec,) = sidecar_connectors()
        return make_connector(spec, {"max_body_bytes": max_body_bytes})


class TestRest(ConnectorSuite):
    """`rest`, over real HTTP on the loopback."""

    @pytest.fixture
    def bench(self) -> RestBench:
        """Make one."""
        return RestBench()
