"""Lists the tool definitions of a server, and compares their digests with the pins."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from mcp.client.session import ClientSession
from mcp_types import ListToolsRequest, PaginatedRequestParams
from pydantic import RootModel

from sidecar.core.faults import Fault
from sidecar.core.json_schemas import canonical_text
from sidecar_connector_mcp.endpoints import Pinned

MOST_PAGES: Final = 50
MOST_TOOLS: Final = 2000
TWICE: Final = "listed twice"


class Raw(RootModel[dict[str, Any]]):
    """A result with all its members, including those that this version of the SDK does not know."""


class UnusableListing(Exception):
    """The server's list of tools cannot be used. The message quotes nothing that the server sent."""


def digest_of(definition: Mapping[str, Any]) -> str:
    """Return the digest of a definition: SHA-256 over all its members as canonical JSON, descriptions included."""
    return f"sha256:{sha256(canonical_text(definition).encode(errors='surrogatepass')).hexdigest()}"


async def listed(session: ClientSession) -> Sequence[Mapping[str, Any]]:
    """Request all tools of a server, and return their definitions unchanged.

    Raises:
        UnusableListing: the list has too many tools or pages.
        MCPError: the server refuses.
        ValidationError: the response is no result of the protocol.
    """
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        asked = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
        page = (await session.send_request(asked, Raw)).root
        found += page.get("tools", ())
        if len(found) > MOST_TOOLS:
            raise UnusableListing(f"it lists more than {MOST_TOOLS} tools")
        cursor = page.get("nextCursor")
        if cursor is None:
            return found
    raise UnusableListing(f"its list has more than {MOST_PAGES} pages")


def digests_of(definitions: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return name of a tool to digest of its definition; to `TWICE` if the list has the name twice."""
    digests: dict[str, str] = {}
    for definition in definitions:
        name = str(definition["name"])  # the SDK has checked that each entry has one
        digests[name] = TWICE if name in digests else digest_of(definition)
    return digests


def mismatch(wanted: Pinned, digests: Mapping[str, str]) -> Fault | None:
    """Return why a tool must not be called, with digests and a remedy; None if its definition has the pin."""
    found = digests.get(wanted.tool)
    if found is None:
        remedy = f"the server lists no tool {wanted.tool!r}: correct the tool's `endpoint`, or bring the tool back"
        return Fault(wanted.place, wanted.place, "no such tool", remedy)
    if found == TWICE:
        remedy = f"the server lists tool {wanted.tool!r} twice, so its definition is not known: correct the server"
        return Fault(wanted.place, wanted.place, "tool listed twice", remedy)
    if wanted.pin is None:
        remedy = f"review the definition of tool {wanted.tool!r}, then pin it: endpoint {wanted.place}#{found}"
        return Fault(wanted.place, wanted.place, f"tool is not pinned, found {found}", remedy)
    if found != wanted.pin:
        remedy = (
            f"the definition of tool {wanted.tool!r} has changed since it was pinned: review it, then pin the new "
            f"one in the tool's `endpoint`, {wanted.place}#{found}, or have the server bring the old one back"
        )
        return Fault(
            wanted.place, wanted.place, f"tool definition changed: expected {wanted.pin}, found {found}", remedy
        )
    return None
