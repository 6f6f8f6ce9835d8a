"""The `endpoint` of a tool: which tool of which server, and which definition of it was reviewed."""

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
        pin: digest of the definition that may be called; None: nothing may.
    """

    server: str
    tool: str
    pin: str | None

    @property
    def place(self) -> str:
        """Return the endpoint without its pin."""
        return f"mcp:{self.server}/{quote(self.tool, safe='')}"


def pinned_in(endpoint: str) -> Pinned | None:
    """Return what an endpoint names, or None if it does not follow `RULE`; the pin may be missing."""
    found = ENDPOINT.match(endpoint)
    return None if found is None else Pinned(found[1], unquote(found[2]), found[3])
