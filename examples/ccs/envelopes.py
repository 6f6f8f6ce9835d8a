"""The bytes of an answer: right, or wrong in the way a fault asks for."""

import gzip
from functools import cache
from typing import Any, Final

import msgspec

from examples.ccs.data import PAYLOADS, Payload, with_canary
from examples.ccs.faults import Fault, FaultKind, Where
from examples.ccs.schemas import VERSIONS

OVERSIZE_BYTES: Final = 2 * 1024 * 1024
BOMB_BYTES: Final = 16 * 1024 * 1024

Envelope = dict[str, Any]


class EnricherRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer sends. Source: REQUIREMENTS 6.5.

    Attributes:
        principal: on whose behalf; empty is refused with 400 missing_principal.
        nonce: echoed in the envelope; None: the envelope has none.
    """

    principal: str = ""
    domain_type: str
    enricher_id: str
    arguments: dict[str, Any] = {}
    nonce: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Key into the typing registry."""
        return (self.domain_type, self.enricher_id)


def envelope_of(request: EnricherRequest, principal: str, canary: str = "") -> Envelope:
    """Return the right answer to `request` for `principal`; `canary`, if any, in every part that holds data."""
    payload: Payload = PAYLOADS[request.key](principal, request.arguments)
    envelope: Envelope = {
        "domain_type": request.domain_type,
        "enricher_id": request.enricher_id,
        "version": VERSIONS[request.key],
        "principal": principal,
        "status": "ok",
        "payload": with_canary(payload, canary) if canary else payload,
        "partial": [],
        "cache_meta": {
            "cached": False,
            "cacheable": True,
            "ttl_seconds": 60,
            "key": f"{request.enricher_id}:{canary or 'v1'}",
        },
    }
    return envelope if request.nonce is None else {**envelope, "nonce": request.nonce}


def answer_of(request: EnricherRequest, fault: Fault | None) -> bytes:
    """Return the body of the answer with 200."""
    if fault is None:
        return msgspec.json.encode(envelope_of(request, request.principal))
    match fault.kind:
        case FaultKind.DUPLICATE_KEYS:
            return _with_duplicate(request, fault)
        case FaultKind.MALFORMED:
            body = msgspec.json.encode(envelope_of(request, request.principal, fault.canary))
            return body[: len(body) // 2]
        case FaultKind.OVERSIZE:
            envelope = envelope_of(request, request.principal, fault.canary)
            return msgspec.json.encode({**envelope, "padding": "x" * OVERSIZE_BYTES})
        case FaultKind.GZIP_BOMB:
            return _bomb()
        case _:
            return msgspec.json.encode(_changed(request, fault))


def _changed(request: EnricherRequest, fault: Fault) -> Envelope:
    """Return the envelope of a fault that is still one JSON object."""
    right = envelope_of(request, request.principal, fault.canary)
    other = envelope_of(request, fault.answer_as, fault.canary)
    major, _, minor = str(right["version"]).partition(".")
    if fault.kind is FaultKind.BREAKING:
        renamed = {"status": "result_status", "payload": "data"}
        return {renamed.get(name, name): value for name, value in right.items()}
    if fault.kind is FaultKind.NO_ENVELOPE:
        return dict(right["payload"])
    changes: dict[FaultKind, Envelope] = {
        FaultKind.PARTIAL: _status("partial", fault.canary),
        FaultKind.ERROR: {**_status("error", fault.canary), "payload": None},
        FaultKind.WRONG_PRINCIPAL: {**other, **_status(fault.status, fault.canary)},
        FaultKind.WRONG_MAJOR: {"version": f"{int(major) + 1}.{minor}"},
        FaultKind.INVALID_PAYLOAD: {"payload": {"surprise": fault.canary or "field"}},
        FaultKind.WRONG_KEY: {"enricher_id": f"{request.enricher_id}_legacy"},
        FaultKind.REPLAY: {**other, "principal": request.principal, "nonce": "nonce-of-another-request"},
    }
    return {**right, **changes.get(fault.kind, {})}


def _status(status: str, canary: str) -> Envelope:
    """Return `status` and the failed sources that go with it."""
    if status == "ok":
        return {"status": "ok", "partial": []}
    failed = {"source": "merchant_feed", "critical": status == "error", "message": f"timed out {canary}".strip()}
    return {"status": status, "partial": [failed]}


def _with_duplicate(request: EnricherRequest, fault: Fault) -> bytes:
    if fault.where is Where.PRINCIPAL:
        other = envelope_of(request, fault.answer_as, fault.canary)
        right = msgspec.json.encode({"principal": request.principal})
        return msgspec.json.encode(other)[:-1] + b"," + right[1:]
    envelope = envelope_of(request, request.principal, fault.canary)
    if fault.where is Where.ENVELOPE:
        return b'{"status":"error",' + msgspec.json.encode(envelope)[1:]
    payload = msgspec.json.encode(envelope["payload"])
    doubled = payload[:-1] + b"," + payload[1:]
    return msgspec.json.encode({**envelope, "payload": msgspec.Raw(doubled)})


@cache
def _bomb() -> bytes:
    return gzip.compress(b'{"principal":"' + b"x" * BOMB_BYTES + b'"}')
