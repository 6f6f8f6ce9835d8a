"""Connector `mcp`, and what a failed call means to the gateway."""

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
"""A call that was given up earlier says nothing about its server."""
LOGGERS: Final = ("mcp", "httpx2", "httpcore2")
"""They write messages of a server, and with that users' data, to the log."""


class McpConnector:
    """Carries calls of data-backed tools to MCP servers.

    A tool is called only if its definition has the digest in the tool's `endpoint`. One attempt for each call; only a
    session that the server says it does not know is opened anew, since nothing has run in it. Source: PC2-FR-9a,
    PC2-FR-12e, PC2-D-22.
    """

    def __init__(self, settings: McpSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._servers = {name: Server(name, each, settings) for name, each in settings.servers.items()}
        self._closed = False
        for name in LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Send `call` once and return the envelope unopened, or why there is none."""
        if not call.principal:
            return EnricherRefused(RefusalKind.MISSING_PRINCIPAL)
        try:
            arguments = from_json(call.arguments_json, dict[str, Any])
        except DecodeError:
            return EnricherRefused(RefusalKind.MALFORMED)
        wanted = pinned_in(call.endpoint)
        server = None if wanted is None or self._closed else self._servers.get(wanted.server)
        if wanted is None or server is None:
            return EnricherRefused(RefusalKind.UNAVAILABLE, self._no_server(call.endpoint), sent=False)
        try:
            async with asyncio.timeout(call.timeout.total_seconds()):
                reply, forgotten = await self._exchange(server, wanted, call, arguments)
                # By the protocol nothing has run in a session that is not known: open another one. An effect is not
                # sent again even so, since the 404 may come from another party.
                if forgotten and call.repeatable:
                    reply, _ = await self._exchange(server, wanted, call, arguments)
                return reply
        except TimeoutError:
            return EnricherRefused(RefusalKind.TIMEOUT)
        except NoSession as none:
            return EnricherRefused(RefusalKind.UNAVAILABLE, none.fault, sent=False)

    async def close(self) -> None:
        """End all sessions; calls that are still running end as `UNAVAILABLE`."""
        self._closed = True
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    def _no_server(self, endpoint: str) -> Fault:
        remedy = f"write the tool's `endpoint` as {RULE}; there are the servers: {', '.join(self._servers)}"
        return Fault(endpoint[:200], errno="no such MCP server", remedy=remedy)

    async def _exchange(
        self, server: Server, wanted: Pinned, call: EnricherCall, arguments: dict[str, Any]
    ) -> tuple[EnricherReply, bool]:
        loop = asyncio.get_running_loop()
        async with server.session_for(call.principal) as session:
            heard, began = session.wire.heard, loop.time()
            try:
                reply = await self._asked(session, wanted, call, arguments)
            except asyncio.CancelledError:
                # Out of time without a word from the server: the next call shall meet a new session or process.
                if session.wire.heard == heard and loop.time() - began >= SILENCE_SECONDS:
                    session.spoil()
                raise
            return reply, session.wire.forgotten and isinstance(reply, EnricherRefused)

    async def _asked(
        self, session: Session, wanted: Pinned, call: EnricherCall, arguments: dict[str, Any]
    ) -> EnricherReply:
        try:
            fault = mismatch(wanted, await session.digests())
            if fault is not None:
                return EnricherRefused(RefusalKind.UNAVAILABLE, fault, sent=False)
            interview = Interview(call.answer, may_ask=session.questions and call.repeatable)
            result = await session.call(wanted.tool, arguments, meta_of(call), interview)
            if interview.asked is not None:
                return asking(question_of(interview.asked, wanted.place, interview.asked.meta), wanted.place)
        except UnusableListing as problem:
            fault = Fault(wanted.place, wanted.place, str(problem), "correct the server's tools/list")
            return EnricherRefused(RefusalKind.UNAVAILABLE, fault, sent=False)
        except (MCPError, ConnectionError) as error:
            return self._refused(session, wanted, error)
        except (ValidationError, RecursionError):  # no result of the protocol; the text quotes what the server sent
            return EnricherRefused(RefusalKind.MALFORMED)
        return reply_of(result, wanted.place, self._settings.max_body_bytes, questions=session.questions)

    def _refused(self, session: Session, wanted: Pinned, error: MCPError | ConnectionError) -> EnricherReply:
        if isinstance(error, ConnectionError) or error.code == CONNECTION_CLOSED:
            session.spoil()
        if session.wire.overflowed:
            return EnricherRefused(RefusalKind.TOO_LARGE)
        if session.fault is not None:
            return EnricherRefused(RefusalKind.UNAVAILABLE, session.fault)
        code = f"MCP error {error.code}" if isinstance(error, MCPError) else "connection closed"
        if session.wire.status:
            code = f"HTTP {session.wire.status}"
        return EnricherRefused(RefusalKind.UNAVAILABLE, Fault(wanted.place, wanted.place, code, UNKNOWN_REMEDY))


def meta_of(call: EnricherCall) -> Mapping[str, Any]:
    """Return `_meta` of a call: the user, the data, nonce and idempotency key if there are any, and the trace."""
    asked = {"principal": call.principal, "domain_type": call.domain_type, "enricher_id": call.enricher_id}
    if call.nonce is not None:
        asked["nonce"] = call.nonce
    if call.idempotency_key is not None:
        asked["idempotency_key"] = call.idempotency_key
    traced = {name: value for name in TRACE_HEADERS if (value := call.trace_headers.get(name))}
    return {ON_BEHALF_META: asked, **traced}
