"""Cards with data-backed tools, and a data service in this process that answers for the right user."""

import json
from typing import Any

from sidecar.core.definitions.cards.card import Card, ToolEntry, ToolOperation
from sidecar.core.definitions.cards.digest import digest_of_card
from sidecar.core.identifiers import Commit, ToolId
from sidecar.policy.protocols import EnricherAnswer, EnricherCall
from tests.support.builders import MODEL, a_card


def a_card_with_tools(name: str, *tool_ids: str, known: tuple[str, ...] = (), **fields: Any) -> Card:
    """Return a card whose definition may call `tool_ids`; the tools in `known` are declared too, but not listed."""
    definition = a_card(name, tools=tuple(ToolId(each) for each in tool_ids), **fields).definition
    tools = tuple(a_tool(each) for each in (*tool_ids, *known))
    digest = digest_of_card(definition, MODEL, tools, ())
    return Card(definition, MODEL, tools, (), digest, Commit(digest))


def a_tool(tool_id: str, **fields: Any) -> ToolEntry:
    """Return a data-backed tool that reads, takes and gives any object; `fields` are those of `ToolEntry`."""
    fields.setdefault("operation", ToolOperation.READ)
    return ToolEntry(
        id=ToolId(tool_id),
        description=f"Looks up {tool_id}.",
        endpoint=f"http://data/{tool_id}",
        domain_type="Anything",
        enricher_id=tool_id,
        payload_schema={"type": "object"},
        **fields,
    )


def an_envelope(call: EnricherCall, *, status: str = "ok", payload: object = None, **changes: Any) -> EnricherAnswer:
    """Return the right answer to a call; `changes` are members of the envelope."""
    members = {
        "domain_type": call.domain_type,
        "enricher_id": call.enricher_id,
        "version": "1.0.0",
        "principal": call.principal,
        "status": status,
        "payload": {} if payload is None and status != "error" else payload,
        "partial": [],
    }
    return EnricherAnswer(json.dumps(members | changes).encode())
