"""The connectors that come with the sidecar pass the suite that every connector has to."""

from typing import ClassVar

import pytest

from sidecar.adapters.connector_grpc import plugin as connector_grpc
from sidecar.adapters.connector_rest import plugin as connector_rest
from sidecar.policy.factory import make_connector
from sidecar.policy.protocols import Connector
from sidecar_conformance.connector import ConnectorSuite
from tests.plugins.scripted_enricher import EnricherBench
from tests.plugins.scripted_http import HttpBench


class RestBench(HttpBench):
    """Connectors `rest`."""

    def make(self, max_body_bytes: int) -> Connector:
        """Make one as the composition root would."""
        (spec,) = connector_rest.sidecar_connectors()
        return make_connector(spec, {"max_body_bytes": max_body_bytes})


class TestRest(ConnectorSuite):
    """`rest`, over real HTTP on the loopback."""

    @pytest.fixture
    def bench(self) -> RestBench:
        """Make one."""
        return RestBench()


class GrpcBench(EnricherBench):
    """Connectors `grpc`."""

    def make(self, max_body_bytes: int) -> Connector:
        """Make one as the composition root would."""
        (spec,) = connector_grpc.sidecar_connectors()
        return make_connector(spec, {"max_body_bytes": max_body_bytes})


class TestGrpc(ConnectorSuite):
    """`grpc`, over real gRPC on the loopback, which gives no half answers."""

    closed: ClassVar = frozenset({"truncate"})

    @pytest.fixture
    def bench(self) -> GrpcBench:
        """Make one."""
        return GrpcBench()
