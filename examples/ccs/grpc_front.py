"""The service over gRPC: `subagents.envelope.v1.EnricherService`, with the same data, switches and record of calls.

Faults that only JSON over HTTP knows are sent as what comes nearest: `gzip_bomb` as a plain oversize.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote

import grpc

from examples.ccs.envelopes import EnricherRequest, answer_of
from examples.ccs.faults import Fault, FaultKind, Where
from examples.ccs.server import ON_BEHALF_OF, ReferenceCcs, refused
from examples.ccs.signing import signed_message
from subagents.envelope.v1 import envelope_pb2

SERVICE: Final = "subagents.envelope.v1.EnricherService"
STATUS_OF: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    503: grpc.StatusCode.UNAVAILABLE,
}
STATUSES: Final = {
    "ok": envelope_pb2.ENVELOPE_STATUS_OK,
    "partial": envelope_pb2.ENVELOPE_STATUS_PARTIAL,
    "error": envelope_pb2.ENVELOPE_STATUS_ERROR,
}
TEXTS: Final = ("domain_type", "enricher_id", "version", "principal", "nonce")
OVERSIZE: Final = b"\xa2\x06\x80\x80\x80\x01" + b"x" * (2 * 1024 * 1024)
"""An unknown field, number 100, of 2 MiB."""


@asynccontextmanager
async def serving_grpc(ccs: ReferenceCcs, target: str = "127.0.0.1:0") -> AsyncIterator[str]:
    """Serve on the loopback or a Unix socket; yields the target."""

    async def enrich(request: envelope_pb2.EnricherRequest, context: Any) -> bytes:
        return await _enrich(ccs, request, context)

    server = grpc.aio.server()
    handler: Any = grpc.unary_unary_rpc_method_handler(
        enrich, request_deserializer=envelope_pb2.EnricherRequest.FromString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Enrich": handler}),))
    port = server.add_insecure_port(target)
    await server.start()
    try:
        yield target if target.startswith("unix:") else f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def _enrich(ccs: ReferenceCcs, asked: envelope_pb2.EnricherRequest, context: Any) -> bytes:
    metadata = dict(context.invocation_metadata())
    header = metadata.get(ON_BEHALF_OF)
    on_behalf_of = None if header is None else unquote(header)
    request = EnricherRequest(
        principal=asked.principal,
        domain_type=asked.domain_type,
        enricher_id=asked.enricher_id,
        arguments=json.loads(asked.arguments_json or "{}"),
        nonce=asked.nonce or None,
    )
    fault = ccs.faults.take(request.enricher_id, request.principal)
    if fault is not None and fault.kind is FaultKind.SLOW:
        await ccs.faults.delay(fault)
    refusal = refused(request, on_behalf_of, fault)
    status = 200 if refusal is None else refusal.status_code
    ccs.note(request, on_behalf_of, metadata.get("traceparent"), fault, status)
    if refusal is not None:
        await context.abort(STATUS_OF[status], json.loads(bytes(refusal.body))["code"])
    body = _message(request, fault)
    return body if ccs.signer is None else signed_message(body, ccs.signer, fault)


def _message(request: EnricherRequest, fault: Fault | None) -> bytes:
    kind = None if fault is None else fault.kind
    if fault is None or kind not in {
        FaultKind.DUPLICATE_KEYS,
        FaultKind.MALFORMED,
        FaultKind.OVERSIZE,
        FaultKind.GZIP_BOMB,
    }:
        return _serialised(json.loads(answer_of(request, fault)))
    right = _serialised(json.loads(answer_of(request, None)))
    if kind is FaultKind.MALFORMED:
        return right[: len(right) // 2]
    if kind is FaultKind.DUPLICATE_KEYS:
        other = {Where.PRINCIPAL: {"principal": fault.answer_as}, Where.ENVELOPE: {"status": "error"}}
        return _serialised(other.get(fault.where, {"payload": {}})) + right
    return right + OVERSIZE


def _serialised(envelope: dict[str, Any]) -> bytes:
    """Return an envelope as a message; members that are missing, or that no field is for, are left out."""
    made = envelope_pb2.EnricherResponse(
        payload_json=json.dumps(envelope["payload"]) if envelope.get("payload") is not None else "",
        status=STATUSES.get(envelope.get("status", ""), envelope_pb2.ENVELOPE_STATUS_UNSPECIFIED),
        partial=[
            envelope_pb2.FailedSource(source=each["source"], critical=each["critical"])
            for each in envelope.get("partial", [])
        ],
    )
    if "cache_meta" in envelope:
        made.cache_meta.CopyFrom(envelope_pb2.CacheMeta(**envelope["cache_meta"]))
    for name in TEXTS:
        setattr(made, name, envelope.get(name, ""))
    return made.SerializeToString()
