"""Sessions over HTTP: one for each user, opened again where that is safe, and bounded."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp_types import CallToolRequestParams, CallToolResult, TextContent

from plugins.connector_mcp.tests.asking import a_call, answered, refused
from plugins.connector_mcp.tests.service import NOBODY, ToolServer, connected, endpoint_of, text_result
from sidecar.core.identifiers import Principal
from sidecar.policy.protocols import EnricherRefused, RefusalKind
from sidecar_connector_mcp.plugin import mcp_connector


async def fine(_: ServerRequestContext[Any, Any], __: CallToolRequestParams) -> CallToolResult:
    """Answer."""
    return text_result("{}")


async def hang(_: ServerRequestContext[Any, Any], __: CallToolRequestParams) -> CallToolResult:
    """Never answer."""
    await asyncio.Event().wait()
    return text_result("{}")


@pytest.mark.parametrize("legacy", [False, True])
async def test_each_user_has_a_session_of_their_own(legacy: bool) -> None:
    """Whatever a server keeps in a session cannot reach another user; the header of each says whose it is."""
    tools = ToolServer(fine, legacy=legacy)
    async with tools.running() as url, connected(url) as connector:
        for user in ("ada", "bö b", "ada"):
            await answered(connector, principal=Principal(user))

    assert tools.on_behalf_of == ["ada", "bö b", "ada"]
    assert tools.lists == 2
    assert len(set(tools.session_ids)) == (2 if legacy else 1)


async def test_a_session_that_the_server_has_forgotten_is_opened_anew() -> None:
    """A server that was restarted knows none (HTTP 404): nothing has run in it, so the call is sent in a new one."""
    tools = ToolServer(fine, legacy=True)
    async with tools.running() as url, connected(url) as connector:
        await answered(connector)
        tools.forget()
        assert await answered(connector) == b"{}"

    assert tools.calls == 2
    assert len(set(tools.session_ids)) == 2


async def test_a_server_that_forgets_every_session_is_asked_twice_and_no_more() -> None:
    """It might go on like this for ever."""
    tools = ToolServer(fine, legacy=True, forgetful=True)
    async with tools.running() as url, connected(url) as connector:
        kind, fault = await refused(connector)

    assert (kind, fault.errno) == (RefusalKind.UNAVAILABLE, "HTTP 404")
    assert tools.calls == 0


async def test_an_answer_over_the_wire_limit_is_cut_off_before_it_is_read() -> None:
    """Beside the envelope a server may send what it likes; the rest is not read, and the next call works."""
    large = False

    async def answer(_: ServerRequestContext[Any, Any], __: CallToolRequestParams) -> CallToolResult:
        more = [TextContent(type="text", text="x" * 2_000_000)] if large else []
        return CallToolResult(content=[TextContent(type="text", text="{}"), *more])

    tools = ToolServer(answer)
    async with tools.running() as url, connected(url, max_body_bytes=1024) as connector:
        large = True
        assert (await refused(connector))[0] is RefusalKind.TOO_LARGE
        large = False
        assert await answered(connector) == b"{}"


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (CallToolResult(content=[], structured_content={"principal": "ada"}), RefusalKind.MALFORMED),
        (CallToolResult(content=[TextContent(type="text", text="{}")] * 2), RefusalKind.MALFORMED),
        (text_result("no such order", is_error=True), RefusalKind.UNAVAILABLE),
        (text_result('{"code": "unheard_of"}', is_error=True), RefusalKind.UNAVAILABLE),
    ],
    ids=["structured only", "two texts", "error", "unknown code"],
)
async def test_a_result_without_exactly_one_text_is_no_envelope(result: CallToolResult, kind: RefusalKind) -> None:
    """Which of two would be the envelope is nothing to guess; a tool's error is not one either."""

    async def answer(_: ServerRequestContext[Any, Any], __: CallToolRequestParams) -> CallToolResult:
        return result

    async with ToolServer(answer).running() as url, connected(url) as connector:
        assert (await refused(connector))[0] is kind


async def test_what_was_refused_in_the_negotiation_explains_no_later_error() -> None:
    """An older server refuses the first request with HTTP 400, and is used all the same."""

    async def answer(_: ServerRequestContext[Any, Any], __: CallToolRequestParams) -> CallToolResult:
        raise MCPError(code=-32603, message="broken")

    async with ToolServer(answer, legacy=True).running() as url, connected(url) as connector:
        assert (await refused(connector))[1].errno == "MCP error -32603"


async def test_a_server_that_hangs_harms_no_other_server() -> None:
    """Neither sessions nor limits are shared between servers."""
    hanging, well = ToolServer(hang), ToolServer(fine)
    async with hanging.running() as one, well.running() as other:
        connector = mcp_connector({"servers": {"tests": {"url": one}, "well": {"url": other}}, "most_sessions": 1})
        stuck = asyncio.ensure_future(connector.enrich(a_call()))
        await hanging.called.wait()
        _, full = await refused(connector, principal=Principal("bob"))
        assert await answered(connector, endpoint=endpoint_of(server="well")) == b"{}"
        assert not stuck.done()
        await connector.close()
        assert isinstance(await stuck, EnricherRefused)

    assert full.errno == "1 sessions in use"


async def test_an_idle_session_is_closed() -> None:
    """The server is told, so that it can forget the session."""
    tools = ToolServer(fine, legacy=True)
    async with tools.running() as url, connected(url, idle_seconds=0.01) as connector:
        await answered(connector)
        await tools.session_ended.wait()
        assert await answered(connector) == b"{}"

    assert len(set(tools.session_ids)) == 2


async def test_a_server_that_takes_the_connection_and_says_nothing_is_given_up() -> None:
    """The session is opened within `open_seconds`; the fault says so."""

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silence.wait()
        writer.close()

    silence = asyncio.Event()
    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with connected(f"http://127.0.0.1:{port}/mcp", open_seconds=0.1) as connector:
        kind, fault = await refused(connector)
    silence.set()
    listener.close()

    assert (kind, fault.errno) == (RefusalKind.UNAVAILABLE, "ETIMEDOUT")
    assert "within 0.1 s" in fault.remedy


async def test_a_server_that_is_away_is_told_with_the_errno() -> None:
    """And what can be done."""
    async with connected(NOBODY) as connector:
        kind, fault = await refused(connector, timeout=timedelta(seconds=5))

    assert (kind, fault.target, fault.errno) == (RefusalKind.UNAVAILABLE, "mcp:tests", "ECONNREFUSED")
    assert "[connectors.mcp.servers]" in fault.remedy


async def test_the_token_is_read_for_each_session_and_never_told(tmp_path: Path) -> None:
    """A token that cannot be read keeps its server from being asked."""
    tools, file = ToolServer(fine), tmp_path / "token"
    async with tools.running() as url, connected(url, server_token_file=str(file)) as connector:
        _, missing = await refused(connector)
        file.write_text("two words")
        _, wrong = await refused(connector)
        file.write_text("s3cret\n")
        await answered(connector)

    assert (missing.errno, wrong.errno) == ("FileNotFoundError", "the token file holds no token")
    assert tools.authorizations == ["Bearer s3cret"]


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({}, "needs either `url` or `command`"),
        ({"url": "http://127.0.0.1/mcp", "command": ["true"]}, "needs either `url` or `command`"),
        ({"url": "http://mcp.example.com/mcp"}, "must be https:// beyond this machine"),
        ({"url": "https://user:secret@example.com/mcp"}, "must hold no user name"),
        ({"command": ["true"], "token_file": "x"}, "token_file belongs to `url`"),
        ({"url": "http://127.0.0.1/mcp", "environment": {"A": "b"}}, "belong to `command`"),
    ],
)
def test_settings_that_cannot_be_used_name_the_server(server: dict[str, Any], problem: str) -> None:
    """The start stops with this message."""
    with pytest.raises(ValueError, match=f"servers.tests: .*{problem}"):
        mcp_connector({"servers": {"tests": server}})
