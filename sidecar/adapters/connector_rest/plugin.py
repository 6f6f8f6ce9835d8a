"""Registers connector `rest`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sidecar.adapters.connector_rest.settings import RestSettings
from sidecar.adapters.token_exchange.settings import exchanges_tokens
from sidecar.policy.specs import ConnectorSpec
from sidecar.settings.schema import json_schema

if TYPE_CHECKING:
    from sidecar.adapters.connector_rest.connector import RestConnector


def rest_connector(settings: Mapping[str, Any]) -> "RestConnector":
    """Return a connector made from the `rest` section of the settings."""
    from sidecar.adapters.connector_rest.connector import RestConnector  # noqa: PLC0415  httpcore, if it is used

    return RestConnector(RestSettings(**settings))


def warm_up(settings: Mapping[str, Any]) -> None:
    """Import the HTTP client and read certificates. This takes 50 ms, which must not delay other calls."""
    from sidecar.adapters.connector_rest.connector import RestConnector  # noqa: F401, PLC0415  httpcore, if it is used
    from sidecar.adapters.http_client.pools import tls_context  # noqa: PLC0415  the same reason

    tls_context(RestSettings(**settings).tls)


def sidecar_connectors() -> Sequence[ConnectorSpec]:
    """Offer `rest`."""
    return [
        ConnectorSpec(
            name="rest",
            contract="connector/1",
            summary="POSTs EnricherRequest as JSON over HTTP to the tool's endpoint",
            config_schema=json_schema(RestSettings),
            factory=rest_connector,
            warm_up=warm_up,
            needs_user_token=exchanges_tokens,
        )
    ]
