"""Registers connector `grpc`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings
from sidecar.policy.specs import ConnectorSpec
from sidecar.settings.schema import json_schema

if TYPE_CHECKING:
    from sidecar.adapters.connector_grpc.connector import GrpcConnector


def grpc_connector(settings: Mapping[str, Any]) -> "GrpcConnector":
    """Return a connector made from the `grpc` section of the connectors' settings."""
    from sidecar.adapters.connector_grpc.connector import GrpcConnector  # noqa: PLC0415  if it is used

    return GrpcConnector(GrpcConnectorSettings(**settings))


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
