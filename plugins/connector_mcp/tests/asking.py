"""Calls of a connector, for tests."""

from datetime import timedelta
from typing import Any

from plugins.connector_mcp.tests.service import endpoint_of
from sidecar.core.faults import Fault
from sidecar.core.identifiers import Principal, ToolId
from sidecar.policy.protocols import EnricherAnswer, EnricherCall, EnricherRefused, EnricherReply, RefusalKind
from sidecar_connector_mcp.connector import McpConnector


def a_call(**changes: Any) -> EnricherCall:
    """Return a call of the test server's tool for user ada."""
    plain: dict[str, Any] = {
        "tool_id": ToolId("recent_orders"),
        "endpoint": endpoint_of(),
        "domain_type": "orders",
        "enricher_id": "recent_orders",
        "principal": Principal("ada"),
        "arguments_json": "{}",
        "nonce": None,
        "timeout": timedelta(seconds=20),
    }
    return EnricherCall(**{**plain, **changes})


async def asked(connector: McpConnector, **changes: Any) -> EnricherReply:
    """Call."""
    return await connector.enrich(a_call(**changes))


async def answered(connector: McpConnector, **changes: Any) -> bytes:
    """Call and return the envelope, which has to come."""
    reply = await asked(connector, **changes)
    assert isinstance(reply, EnricherAnswer), f"{reply} {getattr(reply, 'fault', None)}"
    return reply.body


async def refused(connector: McpConnector, **changes: Any) -> tuple[RefusalKind, Fault]:
    """Call and return why there is no envelope, and where; without a place an empty one."""
    reply = await asked(connector, **changes)
    assert isinstance(reply, EnricherRefused), repr(reply)
    return reply.kind, reply.fault or Fault("")
