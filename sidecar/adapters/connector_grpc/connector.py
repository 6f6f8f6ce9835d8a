"""The connector `grpc`: calls data services over gRPC, and tells the tool gateway why a call failed."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import grpc
import msgspec

from sidecar.adapters.connector_grpc.channels import Channels
from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings
from sidecar.core.decoding import from_json
from sidecar.core.envelopes.forms import EnvelopeEncoding
from sidecar.core.faults import Fault
from sidecar.policy.faults import grpc_fault
from sidecar.policy.protocols import EnricherAnswer, EnricherCall, EnricherRefused, EnricherReply, RefusalKind
from sidecar.policy.targets import is_local
from sidecar.policy.user_headers import headers_on_behalf
from subagents.envelope.v1 import envelope_pb2

if TYPE_CHECKING:
    from sidecar.adapters.token_exchange.exchange import TokenExchange

REFUSALS: Final = {
    (grpc.StatusCode.INVALID_ARGUMENT, "missing_principal"): RefusalKind.MISSING_PRINCIPAL,
    (grpc.StatusCode.PERMISSION_DENIED, "principal_mismatch"): RefusalKind.PRINCIPAL_MISMATCH,
}
"""Status and message of the refusals of a data service. Source: PC2-D-32, PC2-D-33."""
TOO_LARGE: Final = "message larger than max"
"""Part of gRPC's own message for RESOURCE_EXHAUSTED if an answer exceeds the limit."""


NO_CONNECTION: Final = "failed to connect to all addresses"
"""Part of gRPC's own message for UNAVAILABLE if there was no connection to send the request over."""


def refusal_of(failure: grpc.aio.AioRpcError, target: str) -> EnricherRefused:
    """Return why there is no envelope. The service's message is only searched for an errno, and never forwarded."""
    status, message = failure.code(), failure.details() or ""
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return EnricherRefused(RefusalKind.TIMEOUT)
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED and TOO_LARGE in message:
        return EnricherRefused(RefusalKind.TOO_LARGE)
    kind = REFUSALS.get((status, message), RefusalKind.UNAVAILABLE)
    if kind is not RefusalKind.UNAVAILABLE:
        return EnricherRefused(kind)
    # In doubt the request counts as sent: only a call that was certainly not sent may be repeated with an effect.
    sent = status is not grpc.StatusCode.UNAVAILABLE or NO_CONNECTION not in message
    return EnricherRefused(kind, grpc_fault(target, status.name, message, "the tool's `endpoint`"), sent)


BEYOND: Final = (
    "the `endpoint` is beyond this machine, or none: correct it, or set `ca_file` and the client certificate"
)
ENRICH: Final = "/subagents.envelope.v1.EnricherService/Enrich"


class GrpcConnector:
    """Carries enricher calls to services that serve `EnricherService`.

    Makes one attempt per call. The bytes of the answer are returned unchanged: the gateway checks for which user they
    are before any parser reads them. The target of a call is the tool's `endpoint`, such as `unix:/run/ccs.sock`.
    Source: PC2-FR-9a, PC2-FR-12e, PC2-D-22.
    """

    def __init__(self, settings: GrpcConnectorSettings) -> None:
        """Begin without connections.

        Raises:
            OSError, DecodeError, TlsFilesProblem: certificates, or the secret for a token endpoint, cannot be used.
        """
        self._may_leave = settings.allow_remote or settings.tls is not None
        self._channels = Channels(settings)
        self._exchange = _make_exchange(settings) if settings.token_endpoint else None

    @property
    def needs_user_token(self) -> bool:
        """Whether it exchanges the tokens of users."""
        return self._exchange is not None

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Send `call` once; return the envelope unparsed, or why there is none, within `call.timeout`."""
        if not call.principal:
            return EnricherRefused(RefusalKind.MISSING_PRINCIPAL, sent=False)
        request = request_of(call)
        if request is None:
            return EnricherRefused(RefusalKind.MALFORMED, sent=False)
        if not call.endpoint or not (self._may_leave or is_local(call.endpoint)):
            fault = Fault(call.endpoint, call.endpoint, remedy=BEYOND)
            return EnricherRefused(RefusalKind.UNAVAILABLE, fault, sent=False)
        # One deadline for exchange, connection and call, so that a slow exchange does not prolong the call.
        until = asyncio.get_running_loop().time() + call.timeout.total_seconds()
        metadata = await self._metadata(call, until)
        if isinstance(metadata, EnricherRefused):
            return metadata
        async with self._channels.channel_to(call.endpoint) as channel:
            if channel is None:
                return EnricherRefused(RefusalKind.UNAVAILABLE, sent=False)
            return await self._send(channel, call.endpoint, request, until, metadata)

    async def _metadata(self, call: EnricherCall, until: float) -> Mapping[str, str] | EnricherRefused:
        """Return metadata that names the user, with an exchanged token if a token endpoint is configured."""
        metadata = headers_on_behalf(call)
        if self._exchange is None:
            return metadata
        try:
            async with asyncio.timeout_at(until):
                bearer = await self._exchange.bearer_for(call)
        except TimeoutError:
            return EnricherRefused(RefusalKind.TIMEOUT, sent=False)
        return bearer if isinstance(bearer, EnricherRefused) else {**metadata, "authorization": bearer}

    async def _send(
        self,
        channel: grpc.aio.Channel,
        endpoint: str,
        request: envelope_pb2.EnricherRequest,
        until: float,
        metadata: Mapping[str, str],
    ) -> EnricherReply:
        start: Any = channel.unary_unary(ENRICH, request_serializer=envelope_pb2.EnricherRequest.SerializeToString)
        seconds = max(0.0, until - asyncio.get_running_loop().time())
        try:
            body: bytes = await start(request, timeout=seconds, metadata=tuple(metadata.items()))
        except grpc.aio.AioRpcError as failure:
            return refusal_of(failure, endpoint)
        except (grpc.aio.BaseError, ValueError, OSError):
            # Errors without a status, e.g. of a closed channel. They do not tell whether the request was sent, so it
            # counts as sent.
            return EnricherRefused(RefusalKind.UNAVAILABLE)
        except asyncio.CancelledError:
            # gRPC ends the calls of a closed channel with `CancelledError`, which must not look like a cancellation of
            # this task.
            if self._channels.closed and not _being_cancelled():
                return EnricherRefused(RefusalKind.UNAVAILABLE)
            raise
        return EnricherAnswer(body, EnvelopeEncoding.PROTOBUF)

    async def close(self) -> None:
        """Close all connections; calls that are still running end without an envelope."""
        if self._exchange is not None:
            await self._exchange.close()
        await self._channels.close()


def _make_exchange(settings: GrpcConnectorSettings) -> "TokenExchange":
    """Return the exchange of tokens. Raises `OSError`, `TlsFilesProblem`: files cannot be used."""
    from sidecar.adapters.http_client.pools import http_pools  # noqa: PLC0415  httpcore, if it is used
    from sidecar.adapters.token_exchange.exchange import TokenExchange  # noqa: PLC0415  the same reason

    return TokenExchange(settings, http_pools(settings.token_endpoint_tls))


def request_of(call: EnricherCall) -> envelope_pb2.EnricherRequest | None:
    """Return the request; None if the arguments are not one JSON object in UTF-8.

    The arguments are encoded again, so that the service gets no duplicate keys or unusual spellings.
    """
    try:
        arguments = from_json(call.arguments_json, dict[str, Any])
        return envelope_pb2.EnricherRequest(
            principal=call.principal,
            domain_type=call.domain_type,
            enricher_id=call.enricher_id,
            arguments_json=msgspec.json.encode(arguments).decode(),
            nonce=call.nonce or "",
        )
    except ValueError:
        return None


def _being_cancelled() -> bool:
    # `cancelling` counts the requests to cancel this task. An exception that gRPC raises by itself leaves it at 0.
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
