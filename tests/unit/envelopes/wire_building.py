"""Envelopes as serialised messages, made by protobuf itself."""

import json
from typing import Any

from subagents.envelope.v1 import envelope_pb2
from tests.unit.envelopes.building import members

STATUS: dict[str, envelope_pb2.EnvelopeStatus] = {
    "ok": envelope_pb2.ENVELOPE_STATUS_OK,
    "partial": envelope_pb2.ENVELOPE_STATUS_PARTIAL,
    "error": envelope_pb2.ENVELOPE_STATUS_ERROR,
}


def message(**changes: Any) -> envelope_pb2.EnricherResponse:
    """Return what `members(**changes)` is as a message."""
    said = members(**changes)
    made = envelope_pb2.EnricherResponse(
        payload_json=json.dumps(said["payload"]) if "payload" in said else "",
        status=STATUS.get(said.get("status", ""), envelope_pb2.ENVELOPE_STATUS_UNSPECIFIED),
        partial=[envelope_pb2.FailedSource(**source) for source in said.get("partial", [])],
        cache_meta=envelope_pb2.CacheMeta(**said.get("cache_meta", {})),
    )
    for name in ("domain_type", "enricher_id", "version", "principal", "nonce", "signature"):
        setattr(made, name, said.get(name, ""))
    return made


def wire(**changes: Any) -> bytes:
    """Return `message(**changes)`, serialised."""
    return message(**changes).SerializeToString()
