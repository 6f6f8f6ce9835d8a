"""Envelopes as bytes, and what is expected of them."""

import json
from typing import Any, Final

from sidecar.core.definitions.cards.card import ToolEntry
from sidecar.core.envelopes import Expectation, PayloadSchema, build_typing_registry
from sidecar.core.identifiers import Principal, ToolId

ADA: Final = Principal("user-ada")
CANARY: Final = "canary-51c07e"
NONCE: Final = "nonce-1"
SCHEMA: Final = {
    "type": "object",
    "properties": {"note": {"type": "string"}, "any": True},
    "required": ["note"],
    "additionalProperties": False,
}


def tool(tool_id: str = "notes", **changes: Any) -> ToolEntry:
    """Return a data-backed tool of key (notes, read); `changes` are fields of `ToolEntry`."""
    fields: dict[str, Any] = {
        "description": "",
        "domain_type": "notes",
        "enricher_id": "read",
        "version": "1.2.0",
        "payload_schema": SCHEMA,
    }
    return ToolEntry(id=ToolId(tool_id), **{**fields, **changes})


def schema_of(entry: ToolEntry) -> PayloadSchema:
    """Return the compiled schema of one tool."""
    registry, problems = build_typing_registry([entry])
    found = registry.schema_of(entry.domain_type or "", entry.enricher_id or "")
    assert found is not None, problems
    return found


NOTES: Final = schema_of(tool())


def expecting(**changes: Any) -> Expectation:
    """Return what a call for user-ada expects; `changes` are fields of `Expectation`."""
    fields: dict[str, Any] = {
        "principal": ADA,
        "domain_type": "notes",
        "enricher_id": "read",
        "version": "1.2.0",
        "schema": NOTES,
        "nonce": NONCE,
    }
    return Expectation(**{**fields, **changes})


def members(**changes: Any) -> dict[str, Any]:
    """Return the right envelope with a canary in all of its data; None as a change removes the member."""
    right: dict[str, Any] = {
        "domain_type": "notes",
        "enricher_id": "read",
        "version": "1.2.0",
        "principal": ADA,
        "nonce": NONCE,
        "status": "ok",
        "payload": {"note": CANARY},
        "partial": [],
        "cache_meta": {"cached": True, "key": CANARY},
    }
    return {name: value for name, value in {**right, **changes}.items() if value is not None}


def body(**changes: Any) -> bytes:
    """Return `members(**changes)` as JSON."""
    return json.dumps(members(**changes)).encode()
