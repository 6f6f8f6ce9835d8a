"""Connector `mcp`, which calls tools of MCP servers and translates failures into refusals."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.faults import UNKNOWN_REMEDY, Fault
from sidecar.policy.protocols import EnricherCall, EnricherRefused, EnricherReply, RefusalKind
from sidecar.policy.user_headers import TRACE_HEADERS
from sidecar_connector_mcp.answers import asking, reply_of
from sidecar_connector_mcp.definitions import UnusableListing, mismatch
from sidecar_connector_mcp.endpoints import RULE, Pinned, pinned_in
from sidecar_connector_mcp.questions import ON_BEHALF_META, Interview, question_of
from sidecar_connector_mcp.servers import NoSession, Server
from sidecar_connector_mcp.session import Session
from sidecar_connector_mcp.settings import McpSettings

SILENCE_SECONDS: Final = 1.0
"""A server is silent if it sends nothing for at least this long. A shorter call proves nothing about the server."""
LOGGERS: Final = ("mcp", "httpx2", "httpcore2")
"""Loggers of the SDK. They are switched off because they log messages of servers, which contain users' data."""


class McpConnector:
    """Sends calls of data-backed tools to MCP servers.

    A tool is called only if its definition has the digest in the tool's `endpoint`. Each call is sent once. Exception:
    if the server does not know the session, so that it did not run the call, and the call is repeatable, the call is
    sent again in a new session. Source: PC2-FR-9a,
    PC2-FR-12e, PC2-D-22.
    """

    def __init__(self, settings: McpSettings) -> None:
        """Create a connector, which connects to a server at the first call."""
        self._settings = settings
        self._servers = {name: Server(name, each, settings) for name, each in settings.servers.items()}
        self._closed = False
        for name in LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Send a call; return the envelope unopened, a question of the server, or a refusal with its reason."""
        if not call.principal:
            return EnricherRefused(RefusalKind.MISSING_PRINCIPAL)
        try:
            arguments = from_json(call.arguments_json, dict[str, Any])
        except DecodeError:
            return EnricherRefused(RefusalKind.MALFORMED)
        pinned = pinned_in(call.endpoint)
        server = None if pinned is None or self._closed else self._servers.get(pinned.server)
        if pinned is None or server is None:
            return EnricherRefused(RefusalKind.UNAVAILABLE, self._no_server(call.endpoint), sent=False)
        try:
            async with asyncio.timeout(call.timeout.total_seconds()):
                reply, forgotten = await self._exchange(server, pinned, call, arguments)
                # By the protocol, a server that does not know the session did not run the call, so send the call in a
                # new session. A call with an effect is not sent again, because a proxy may have sent the 404.
                if forgotten and call.repeatable:
                    reply, _ = await self._exchange(server, pinned, call, arguments)
                return reply
        except TimeoutError:
            return EnricherRefused(RefusalKind.TIMEOUT)
        except NoSession as error:
            return EnricherRefused(RefusalKind.UNAVAILABLE, error.fault, sent=False)

    async def close(self) -> None:
        """End all sessions; running calls are refused with `UNAVAILABLE`."""
        self._closed = True
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    def _no_server(self, endpoint: str) -> Fault:
        remedy = f"write the tool's `endpoint` as {RULE}; there are the servers: {', '.join(self._servers)}"
        return Fault(endpoint[:200], errno="no such MCP server", remedy=remedy)

    async def _exchange(
        self, server: Server, pinned: Pinned, call: EnricherCall, arguments: dict[str, Any]
    ) -> tuple[EnricherReply, bool]:
        loop = asyncio.get_running_loop()
        async with server.session_for(call.principal) as session:
            heard, began = session.wire.heard, loop.time()
            try:
                reply = await self._call(session, pinned, call, arguments)
            except asyncio.CancelledError:
                # The server was silent until the timeout, so the next call must use a new session or process.
                if session.wire.heard == heard and loop.time() - began >= SILENCE_SECONDS:
                    session.spoil()
                raise
            return reply, session.wire.forgotten and isinstance(reply, EnricherRefused)

    async def _call(
        self, session: Session, pinned: Pinned, call: EnricherCall, arguments: dict[str, Any]
    ) -> EnricherReply:
        try:
            fault = mismatch(pinned, await session.digests())
            if fault is not None:
                return EnricherRefused(RefusalKind.UNAVAILABLE, fault, sent=False)
            interview = Interview(call.answer, may_ask=session.questions and call.repeatable)
            result = await session.call(pinned.tool, arguments, meta_of(call), interview)
            if interview.asked is not None:
                return asking(question_of(interview.asked, pinned.place, interview.asked.meta), pinned.place)
        except UnusableListing as problem:
            fault = Fault(pinned.place, pinned.place, str(problem), "correct the server's tools/list")
            return EnricherRefused(RefusalKind.UNAVAILABLE, fault, sent=False)
        except (MCPError, ConnectionError) as error:
            return self._refused(session, pinned, error)
        except (
            ValidationError,
            RecursionError,
        ):  # not a result of the protocol; the error quotes the server's data, so drop it
            return EnricherRefused(RefusalKind.MALFORMED)
        return reply_of(result, pinned.place, self._settings.max_body_bytes, questions=session.questions)

    def _refused(self, session: Session, pinned: Pinned, error: MCPError | ConnectionError) -> EnricherReply:
        if isinstance(error, ConnectionError) or error.code == CONNECTION_CLOSED:
            session.spoil()
        if session.wire.overflowed:
            return EnricherRefused(RefusalKind.TOO_LARGE)
        if session.fault is not None:
            return EnricherRefused(RefusalKind.UNAVAILABLE, session.fault)
        code = f"MCP error {error.code}" if isinstance(error, MCPError) else "connection closed"
        if session.wire.status:
            code = f"HTTP {session.wire.status}"
        return EnricherRefused(RefusalKind.UNAVAILABLE, Fault(pinned.place, pinned.place, code, UNKNOWN_REMEDY))


def meta_of(call: EnricherCall) -> Mapping[str, Any]:
    """Return `_meta` of a call: user, domain type, enricher, nonce and idempotency key if set, and the trace."""
    on_behalf = {"principal": call.principal, "domain_type": call.domain_type, "enricher_id": call.enricher_id}
    if call.nonce is not None:
        on_behalf["nonce"] = call.nonce
    if call.idempotency_key is not None:
        on_behalf["idempotency_key"] = call.idempotency_key
    traced = {name: value for name in TRACE_HEADERS if (value := call.trace_headers.get(name))}
    return {ON_BEHALF_META: on_behalf, **traced}
