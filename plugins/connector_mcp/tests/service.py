"""An MCP server made with the official SDK, over real HTTP, that does what a test says; and connectors of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp_types import (
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from examples.http_serving import serving
from sidecar.core.decoding import base64url
from sidecar.policy.user_headers import ON_BEHALF_OF
from sidecar_conformance.connector_bench import ConnectorBench, SeenCall, ServiceScript
from sidecar_connector_mcp.connector import McpConnector
from sidecar_connector_mcp.definitions import digest_of
from sidecar_connector_mcp.plugin import mcp_connector
from sidecar_connector_mcp.questions import ON_BEHALF_META

NOBODY: Final = "http://127.0.0.1:9/mcp"
TOOL: Final = "recent_orders"
DEFINITION: Final = {
    "name": TOOL,
    "description": "The user's last orders.",
    "inputSchema": {"type": "object", "additionalProperties": True},
}
Answering = Callable[[ServerRequestContext[Any, Any], CallToolRequestParams], Awaitable[CallToolResult]]


def text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    """Return a result with one text."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


def result_of(body: bytes) -> CallToolResult:
    """Return a result that holds exactly these bytes."""
    try:
        return text_result(body.decode())
    except UnicodeDecodeError:
        blob = base64url(body).replace("-", "+").replace("_", "/")
        contents = BlobResourceContents(uri="envelope:1", blob=blob + "=" * (-len(blob) % 4))
        content: list[ContentBlock] = [EmbeddedResource(type="resource", resource=contents)]
        return CallToolResult(content=content)


@dataclass
class ToolServer:
    """The server.

    Attributes:
        answer: what a call of any tool does.
        definitions: what it lists, as it would be written.
        lists: how often it was asked for its tools.
        calls: how often a tool was called.
        on_behalf_of: the header of each call.
        cut: breaks a connection off in the middle of the answer to a call.
        legacy: it knows the protocol with sessions only.
        forgetful: it knows no session in which a tool is called.
        called: set once a tool was called.
        session_ended: set once a client has said that it is done with a session.
        session_ids: of all requests within a session, in order; empty text for one without.
        authorizations: the credential of each call.
    """

    answer: Answering
    definitions: list[dict[str, Any]] = field(default_factory=lambda: [dict(DEFINITION)])
    lists: int = 0
    calls: int = 0
    on_behalf_of: list[str] = field(default_factory=list)
    cut: bool = False
    legacy: bool = False
    forgetful: bool = False
    called: asyncio.Event = field(default_factory=asyncio.Event)
    session_ended: asyncio.Event = field(default_factory=asyncio.Event)
    session_ids: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    _sessions: dict[str, Any] = field(default_factory=dict)

    def forget(self) -> None:
        """Know no session any more, as after a restart."""
        self._sessions.clear()

    def server(self) -> Server:
        """Return the SDK's server, without a transport."""
        return Server("tests", on_list_tools=self._listed, on_call_tool=self._called)

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[str]:
        """Serve over HTTP; yield the URL. Options are those of the SDK's app."""
        server = self.server()
        app = server.streamable_http_app(**options)
        self._sessions = server.session_manager._server_instances
        async with server.session_manager.run():
            wrapped: Any = self._watched(app)
            async with serving(wrapped, lambda: None, "critical") as url:
                yield f"{url}/mcp"

    async def _listed(self, _: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        self.lists += 1
        return ListToolsResult(tools=[Tool.model_validate(each) for each in self.definitions])

    async def _called(self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        self.calls += 1
        if context.request is not None:
            headers = context.request.headers
            self.on_behalf_of.append(unquote(headers.get(ON_BEHALF_OF, "")))
            self.session_ids.append(headers.get("mcp-session-id", ""))
            self.authorizations.append(headers.get("authorization", ""))
        self.called.set()
        return await self.answer(context, params)

    def _watched(self, app: Starlette) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            headers = dict(scope["headers"])
            if self.legacy and b"mcp-method" in headers:
                await PlainTextResponse("what is that?", 400)(scope, receive, send)
                return
            if scope["method"] == "DELETE":
                self.session_ended.set()
            if self.forgetful and b"mcp-session-id" in headers:
                self.forget()
            await app(scope, receive, _Cutting(self, send))

        return wrapped


class _Cutting:
    """Sends the beginning of an answer to a call, and never the rest."""

    def __init__(self, tools: ToolServer, send: Send) -> None:
        self._tools, self._send, self._before, self._cut = tools, send, tools.calls, False

    async def __call__(self, message: Message) -> None:
        if self._cut:
            return
        if self._tools.cut and self._tools.calls > self._before and message.get("body"):
            self._cut = True
            message = {"type": message["type"], "body": message["body"][:20], "more_body": True}
        await self._send(message)


def endpoint_of(tool: str = TOOL, server: str = "tests", pin: str | None = None) -> str:
    """Return an endpoint that pins the definition that the server lists at first."""
    return f"mcp:{server}/{tool}#{pin or digest_of(DEFINITION)}"


@asynccontextmanager
async def connected(url: str, **settings: Any) -> AsyncIterator[McpConnector]:
    """Have a connector with one server `tests`; settings of the server begin with `server_`."""
    own = {name.removeprefix("server_"): settings.pop(name) for name in list(settings) if name.startswith("server_")}
    connector = mcp_connector({"servers": {"tests": {"url": url, **own}}, **settings})
    try:
        yield connector
    finally:
        await connector.close()


class McpBench(ConnectorBench):
    """The server does what the suite's script says."""

    def __init__(self, *, legacy: bool = False) -> None:
        self._seen: list[SeenCall] = []
        self._changed = asyncio.Condition()
        self._released: asyncio.Event | None = None
        self._url = ""
        self.tools = ToolServer(self._answer, legacy=legacy)

    @override
    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.seen = self._seen
        async with self.tools.running() as url:
            self._url = url
            yield

    @override
    def make(self, max_body_bytes: int) -> McpConnector:
        servers = {"tests": {"url": self._url}, "nobody": {"url": NOBODY}}
        return mcp_connector({"servers": servers, "max_body_bytes": max_body_bytes})

    @property
    @override
    def endpoint(self) -> str:
        return endpoint_of()

    @property
    @override
    def endpoint_of_nobody(self) -> str:
        return endpoint_of(server="nobody")

    @override
    async def asked(self, times: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._seen) >= times)

    async def _answer(self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        meta: Any = dict(params.meta or {})
        asked = meta[ON_BEHALF_META]
        assert context.request is not None
        assert unquote(context.request.headers[ON_BEHALF_OF]) == asked["principal"]
        script = self.script
        self.tools.cut = script is ServiceScript.TRUNCATE
        self._seen.append(
            SeenCall(
                principal=asked["principal"],
                domain_type=asked["domain_type"],
                enricher_id=asked["enricher_id"],
                arguments=params.arguments or {},
                nonce=asked.get("nonce"),
                traceparent=meta.get("traceparent"),
            )
        )
        async with self._changed:
            self._changed.notify_all()
        match script:
            case ServiceScript.MISSING_PRINCIPAL | ServiceScript.PRINCIPAL_MISMATCH:
                return text_result(f'{{"code": "{script.value}"}}', is_error=True)
            case ServiceScript.FAIL:
                raise MCPError(code=-32603, message="broken")
            case ServiceScript.HANG:
                await asyncio.Event().wait()
        return result_of(self.body)
