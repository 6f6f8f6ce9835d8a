"""Registers connector `grpc`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings
from sidecar.adapters.token_exchange.settings import exchanges_tokens
from sidecar.policy.specs import ConnectorSpec
from sidecar.settings.schema import json_schema

if TYPE_CHECKING:
    from sidecar.adapters.connector_grpc.connector import GrpcConnector


def grpc_connector(settings: Mapping[str, Any]) -> "GrpcConnector":
    """Return a connector made from the `grpc` section of the connectors' settings."""
    from sidecar.adapters.connector_grpc.connector import GrpcConnector  # noqa: PLC0415  if it is used

    return GrpcConnector(GrpcConnectorSettings(**settings))


def warm_up(settings: Mapping[str, Any]) -> None:
    """Import the HTTP client of a token endpoint and read certificates: 50 ms that are not to hold up other calls."""
    if exchanges_tokens(settings):
        from sidecar.adapters.http_client.pools import tls_context  # noqa: PLC0415  httpcore, if it is used

        tls_context(GrpcConnectorSettings(**settings).token_endpoint_tls)


def sidecar_connectors() -> Sequence[ConnectorSpec]:
    """Offer `grpc`."""
    return [
        ConnectorSpec(
            name="grpc",
            contract="connector/1",
            summary="asks data services that serve EnricherService over gRPC",
            config_schema=json_schema(GrpcConnectorSettings),
            factory=grpc_connector,
            warm_up=warm_up,
            needs_user_token=exchanges_tokens,
        )
    ]
