"""The `endpoint` of a tool: server, tool, and the digest of the reviewed definition."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

ENDPOINT: Final = re.compile(r"mcp:([a-z0-9][a-z0-9_-]{0,59})/([^#?\s]{1,500})(?:#(sha256:[0-9a-f]{64}))?\Z")
RULE: Final = "mcp:<server>/<tool>#sha256:<64 hexadecimal digits>"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A tool of a server.

    Attributes:
        server: name of the server in the settings.
        tool: name of the tool at the server.
        pin: digest of the reviewed definition; None: not pinned, so the tool must not be called.
    """

    server: str
    tool: str
    pin: str | None

    @property
    def place(self) -> str:
        """Return the endpoint without its pin."""
        return f"mcp:{self.server}/{quote(self.tool, safe='')}"


def pinned_in(endpoint: str) -> Pinned | None:
    """Return the tool in an endpoint; None if the endpoint does not have the form of `RULE`. The pin may be absent."""
    found = ENDPOINT.match(endpoint)
    return None if found is None else Pinned(found[1], unquote(found[2]), found[3])
