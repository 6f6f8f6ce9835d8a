"""Builders for enricher calls, and the judgement over what came back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from examples.ccs.schemas import PAYLOAD_SCHEMAS, VERSIONS
from sidecar.adapters.connector_rest.connector import RestConnector
from sidecar.adapters.connector_rest.settings import RestSettings
from sidecar.core.definitions.cards.card import ToolEntry
from sidecar.core.envelopes import Judgement, build_typing_registry, check_envelope, expectation_of
from sidecar.core.identifiers import Principal, ToolId
from sidecar.policy.protocols import EnricherAnswer, EnricherCall, EnricherReply

ADA = Principal("user-ada")
NONCE = "nonce-1"


def tool(domain_type: str = "offers", enricher_id: str = "offer_search", *, echoes_nonce: bool = True) -> ToolEntry:
    """Return the tool entry of one of the reference service's enrichers."""
    key = (domain_type, enricher_id)
    return ToolEntry(
        id=ToolId(enricher_id),
        description="",
        domain_type=domain_type,
        enricher_id=enricher_id,
        version=VERSIONS[key],
        echoes_nonce=echoes_nonce,
        payload_schema=PAYLOAD_SCHEMAS[key],
    )


def call(endpoint: str, **changes: Any) -> EnricherCall:
    """Return a call for user-ada; `changes` are fields of `EnricherCall`."""
    fields: dict[str, Any] = {
        "tool_id": ToolId("offer_search"),
        "endpoint": endpoint,
        "domain_type": "offers",
        "enricher_id": "offer_search",
        "principal": ADA,
        "arguments_json": '{"query":"coffee"}',
        "nonce": NONCE,
        "timeout": timedelta(seconds=10),
    }
    return EnricherCall(**{**fields, **changes})


def judged(reply: EnricherReply, entry: ToolEntry) -> Judgement:
    """Return what the gateway's checks make of an answer for user-ada."""
    assert isinstance(reply, EnricherAnswer)
    registry, problems = build_typing_registry([entry])
    assert problems == ()
    return check_envelope(reply.body, expectation_of(entry, registry, ADA, NONCE))


@asynccontextmanager
async def connecting(**settings: Any) -> AsyncIterator[RestConnector]:
    """Yield a connector and close it."""
    connector = RestConnector(RestSettings(**settings))
    try:
        yield connector
    finally:
        await connector.close()
