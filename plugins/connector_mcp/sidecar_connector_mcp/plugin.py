"""Registers connector `mcp`."""

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import ConnectorSpec
from sidecar_connector_mcp.settings import SCHEMA, settings_from

if TYPE_CHECKING:
    from sidecar_connector_mcp.connector import McpConnector


def mcp_connector(settings: Mapping[str, Any]) -> "McpConnector":
    """Return a connector, which is not connected yet. Raises `ValueError` if the settings cannot be used."""
    from sidecar_connector_mcp.connector import McpConnector  # noqa: PLC0415  the SDK takes a second to import

    return McpConnector(settings_from(settings))


def import_sdk(_: Mapping[str, Any]) -> None:
    """Import the SDK, which takes about a second, in the sidecar's thread for such work."""
    importlib.import_module("sidecar_connector_mcp.connector")


@hookimpl
def sidecar_connectors() -> Sequence[ConnectorSpec]:
    """Offer `mcp`."""
    return [
        ConnectorSpec(
            name="mcp",
            contract="connector/1",
            summary="calls tools of MCP servers, each pinned to its reviewed definition",
            config_schema=SCHEMA,
            factory=mcp_connector,
            warm_up=import_sdk,
        )
    ]
