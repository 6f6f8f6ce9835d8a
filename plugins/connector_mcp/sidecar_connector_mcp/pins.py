"""`sidecar mcp-pins`: lists a server's tools as the `endpoint` that pins each, for review."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from sidecar_connector_mcp.definitions import digest_of, listed
from sidecar_connector_mcp.endpoints import Pinned
from sidecar_connector_mcp.http_transport import over_http
from sidecar_connector_mcp.servers import token_in
from sidecar_connector_mcp.settings import ServerSettings, settings_from
from sidecar_connector_mcp.stdio_transport import over_stdio
from sidecar_connector_mcp.wire import Wire

MOST_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a message of the server."""


def main(words: Sequence[str]) -> int:
    """Print one line for each tool; return the exit code: 0, 1 if the server fails, 2 for wrong options."""
    options = parser().parse_args(list(words))
    said: dict[str, Any] = {"url": options.url, "token_file": options.token_file, "command": options.command}
    said["questions"] = options.questions
    try:
        plain = {name: value for name, value in said.items() if value}
        server = settings_from({"servers": {options.server: plain}}).servers[options.server]
    except ValueError as problem:
        print(f"cannot ask: {problem}", file=sys.stderr)  # noqa: T201  said to a person
        return 2
    try:
        definitions = asyncio.run(_definitions(server, options.seconds))
    except BaseException as error:  # noqa: BLE001  task groups of the SDK raise groups of anything
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        print(f"{options.server} cannot be asked: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201  said to a person
        return 1
    for endpoint, definition in sorted(pins_of(options.server, definitions).items()):
        print(endpoint)  # noqa: T201  the command's result
        if options.show:
            print(json.dumps(definition, indent=2, ensure_ascii=False, sort_keys=True))  # noqa: T201  said to a person
    return 0


def pins_of(server: str, definitions: Sequence[Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Return endpoint, with pin, to definition."""
    pinned = ((Pinned(server, str(each["name"]), digest_of(each)), each) for each in definitions)
    return {f"{one.place}#{one.pin}": each for one, each in pinned}


async def _definitions(server: ServerSettings, seconds: float) -> Sequence[Mapping[str, Any]]:
    wire = Wire(MOST_BYTES)
    if server.url is None:
        transport = over_stdio(server, wire)
    else:
        headers = {} if server.token_file is None else {"authorization": f"Bearer {token_in(server.token_file)}"}
        transport = over_http(server.url, headers, wire, seconds)
    asks = (
        no_answer if server.questions else None
    )  # some servers list tools that ask the user only for clients with a callback
    async with asyncio.timeout(seconds), Client(transport, elicitation_callback=asks) as client:
        return await listed(client.session)


async def no_answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Cancel every elicitation: this command only lists tools."""
    del context, params
    return ElicitResult(action="cancel")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(
        "sidecar mcp-pins",
        description="Lists the tools of an MCP server as endpoints with their pins.",
    )
    made.add_argument("server", help="its name in [connectors.mcp.servers]")
    made.add_argument("--url", help="endpoint of a server over streamable HTTP")
    made.add_argument("--token-file", help="holds a bearer token for --url")
    made.add_argument("--questions", action="store_true", help="the server may ask users, as in its settings")
    made.add_argument("--show", action="store_true", help="write each definition, as it is reviewed, below its pin")
    made.add_argument(
        "--command",
        nargs=argparse.REMAINDER,
        help="program and arguments of a server over stdio; takes all words that follow",
    )
    made.add_argument("--seconds", type=float, default=10.0, help="longest time for all of it")
    return made
