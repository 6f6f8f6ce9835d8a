"""The service over HTTP.

    POST   /v1/enrich      one enricher call: EnricherRequest in, envelope out
    POST   /admin/faults   set one switch (`faults.Fault` as JSON)
    DELETE /admin/faults   clear all switches
    GET    /admin/calls    the calls so far, oldest first, without payloads
    GET    /healthz        200 as soon as it serves

Refusals are JSON `{"code": ..., "message": ...}`: 400 invalid_request, 400 missing_principal, 403 principal_mismatch,
404 unknown_enricher, 503 unavailable.
"""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from examples.ccs.data import PAYLOADS
from examples.ccs.envelopes import EnricherRequest, answer_of
from examples.ccs.faults import Fault, FaultBoard, FaultKind
from examples.ccs.signing import Signer, signed_json

ON_BEHALF_OF: Final = "x-ccs-on-behalf-of"
"""The user that the calling credential represents, percent-encoded. Replaces a delegated access token here."""
CALLS_KEPT: Final = 1000
PIECE: Final = 64 * 1024
JSON: Final = "application/json"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call as the service saw it; `fault` is the switch that applied, `status` the HTTP status."""

    principal: str
    on_behalf_of: str | None
    domain_type: str
    enricher_id: str
    arguments: dict[str, Any]
    nonce: str | None
    traceparent: str | None
    fault: str | None
    status: int


@dataclass(slots=True)
class ReferenceCcs:
    """State of one service; without a signer it signs nothing."""

    faults: FaultBoard = field(default_factory=FaultBoard)
    signer: Signer | None = None
    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=CALLS_KEPT))

    async def enrich(self, http: Request) -> Response:
        """Answer one enricher call."""
        try:
            request = msgspec.json.decode(await http.body(), type=EnricherRequest)
        except msgspec.MsgspecError:
            return refusal(400, "invalid_request", "The body is not an EnricherRequest as JSON.")
        header = http.headers.get(ON_BEHALF_OF)
        on_behalf_of = None if header is None else unquote(header)
        fault = self.faults.take(request.enricher_id, request.principal)
        if fault is not None and fault.kind is FaultKind.SLOW:
            await self.faults.delay(fault)
        reply = refused(request, on_behalf_of, fault) or _answered(request, fault, self.signer)
        self.note(request, on_behalf_of, http.headers.get("traceparent"), fault, reply.status_code)
        return reply

    def note(
        self,
        request: EnricherRequest,
        on_behalf_of: str | None,
        traceparent: str | None,
        fault: Fault | None,
        status: int,
    ) -> None:
        """Keep one call."""
        self.calls.append(
            Call(
                principal=request.principal,
                on_behalf_of=on_behalf_of,
                domain_type=request.domain_type,
                enricher_id=request.enricher_id,
                arguments=request.arguments,
                nonce=request.nonce,
                traceparent=traceparent,
                fault=None if fault is None else fault.kind.value,
                status=status,
            )
        )

    async def set_fault(self, http: Request) -> Response:
        """Set one switch."""
        try:
            self.faults.set(msgspec.json.decode(await http.body(), type=Fault))
        except msgspec.ValidationError as error:
            return refusal(400, "invalid_request", str(error))
        except msgspec.DecodeError:
            return refusal(400, "invalid_request", "The body is not JSON.")
        return Response(status_code=204)

    async def clear_faults(self, _http: Request) -> Response:
        """Clear all switches."""
        self.faults.clear()
        return Response(status_code=204)

    async def list_calls(self, _http: Request) -> Response:
        """Return the calls so far."""
        return Response(msgspec.json.encode(list(self.calls)), media_type=JSON)

    def app(self) -> Starlette:
        """Return the ASGI application over this state."""
        return Starlette(
            routes=[
                Route("/v1/enrich", self.enrich, methods=["POST"]),
                Route("/admin/faults", self.set_fault, methods=["POST"]),
                Route("/admin/faults", self.clear_faults, methods=["DELETE"]),
                Route("/admin/calls", self.list_calls, methods=["GET"]),
                Route("/healthz", _healthy, methods=["GET"]),
            ]
        )


def refusal(status: int, code: str, message: str) -> Response:
    """Return a refusal; `code` is for programs."""
    return JSONResponse({"code": code, "message": message}, status_code=status)


async def _healthy(_http: Request) -> Response:
    return JSONResponse({"status": "serving"})


def refused(request: EnricherRequest, on_behalf_of: str | None, fault: Fault | None) -> Response | None:
    """Return the refusal of a request, or None if it is answered."""
    kind = None if fault is None else fault.kind
    if not request.principal or kind is FaultKind.MISSING_PRINCIPAL:
        return refusal(400, "missing_principal", "Name the user in `principal`.")
    if on_behalf_of not in {None, request.principal} or kind is FaultKind.PRINCIPAL_MISMATCH:
        return refusal(403, "principal_mismatch", "The calling credential represents another user.")
    if request.key not in PAYLOADS:
        return refusal(404, "unknown_enricher", "There is no such (domain_type, enricher_id).")
    if kind is FaultKind.DOWN:
        return refusal(503, "unavailable", "The service is down.")
    return None


def _answered(request: EnricherRequest, fault: Fault | None, signer: Signer | None) -> Response:
    body = answer_of(request, fault)
    if signer is not None:
        body = signed_json(body, signer, fault)
    if fault is not None and fault.kind is FaultKind.OVERSIZE:
        return StreamingResponse(_pieces(body), media_type=JSON)
    if fault is not None and fault.kind is FaultKind.GZIP_BOMB:
        return Response(body, media_type=JSON, headers={"content-encoding": "gzip"})
    return Response(body, media_type=JSON)


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]
