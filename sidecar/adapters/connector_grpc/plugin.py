"""Registers connector `grpc`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.adapters.connector_grpc.connector import GrpcConnector
from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import ConnectorSpec
from sidecar.settings.schema import json_schema


def grpc_connector(settings: Mapping[str, Any]) -> GrpcConnector:
    """Return a connector made from the `grpc` section of the connectors' settings."""
    return GrpcConnector(GrpcConnectorSettings(**settings))


@hookimpl
def sidecar_connectors() -> Sequence[ConnectorSpec]:
    """Offer `grpc`."""
    return [
        ConnectorSpec(
            name="grpc",
            contract="connector/1",
            summary="asks data services that serve EnricherService over gRPC",
            config_schema=json_schema(GrpcConnectorSettings),
            factory=grpc_connector,
        )
    ]
