"""Settings of connector `mcp`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sidecar.policy.targets import problem_with_url

IN_THE_OPEN: Final = "users' data would travel in the open"
NAME: Final = "^[a-z0-9][a-z0-9_-]{0,59}$"
SERVER_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "Endpoint of a server over streamable HTTP."},
        "token_file": {"type": "string", "description": "Holds a bearer token for `url`; read for each new session."},
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": "Program and arguments of a server over stdio, instead of `url`.",
        },
        "directory": {"type": "string", "description": "Working directory of `command`."},
        "environment": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Further variables for `command`; of the sidecar's own it gets a few like PATH.",
        },
        "definitions_seconds": {
            "type": "number",
            "minimum": 0,
            "maximum": 3600,
            "description": "How long the tool definitions of a session hold before they are listed and compared again.",
        },
        "questions": {
            "type": "boolean",
            "description": "Tools of `url` may ask the user (elicitation): the call ends with the question.",
        },
    },
    "additionalProperties": False,
}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "servers": {
            "type": "object",
            "propertyNames": {"pattern": NAME},
            "minProperties": 1,
            "additionalProperties": SERVER_SCHEMA,
            "description": "The servers by the name that a tool's `endpoint` uses.",
        },
        "max_body_bytes": {"type": "integer", "minimum": 1024, "maximum": 67108864, "description": "Largest envelope."},
        "open_seconds": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 60,
            "description": "Longest time to connect, shake hands and list the tools.",
        },
        "idle_seconds": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 3600,
            "description": "A session over HTTP without a call for this long is closed.",
        },
        "most_sessions": {
            "type": "integer",
            "minimum": 1,
            "maximum": 4096,
            "description": "Most sessions with one server: one for each user over HTTP.",
        },
        "restart_seconds": {
            "type": "number",
            "minimum": 0,
            "maximum": 600,
            "description": "Shortest time between two starts of a `command`.",
        },
    },
    "required": ["servers"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server; see `SERVER_SCHEMA`.

    Raises:
        ValueError: not exactly one of `url` and `command` is set, the URL would carry users' data unencrypted, or
            another setting does not fit `url` or `command`.
    """

    url: str | None = None
    token_file: Path | None = None
    command: tuple[str, ...] = ()
    directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    definitions_seconds: float = 60.0
    questions: bool = False

    def __post_init__(self) -> None:
        """Check the conditions that the JSON schema does not express."""
        if (self.url is None) == (not self.command):
            raise ValueError("needs either `url` or `command`")
        if self.url is not None and (problem := problem_with_url(self.url, IN_THE_OPEN, query=True)):
            raise ValueError(f"url {problem}")
        if self.url is None and self.questions:
            raise ValueError("questions belongs to `url`: a program serves all users, and may mix up who is asked")
        if self.url is None and self.token_file is not None:
            raise ValueError("token_file belongs to `url`")
        if self.url is not None and (self.directory is not None or self.environment):
            raise ValueError("directory and environment belong to `command`")


@dataclass(frozen=True, slots=True)
class McpSettings:
    """Settings of a connector; see `SCHEMA`."""

    servers: Mapping[str, ServerSettings]
    max_body_bytes: int = 1024 * 1024
    open_seconds: float = 5.0
    idle_seconds: float = 60.0
    most_sessions: int = 256
    restart_seconds: float = 1.0

    @property
    def max_wire_bytes(self) -> int:
        """Maximum size of a message: JSON may escape a byte of an envelope as 6, and a result may contain it twice."""
        return 12 * self.max_body_bytes + 256 * 1024


def settings_from(said: Mapping[str, Any]) -> McpSettings:
    """Return the settings in a section that fits `SCHEMA`. Raises `ValueError` with the server's name."""
    servers = {name: _server_from(name, content) for name, content in said["servers"].items()}
    return McpSettings(**{**said, "servers": servers})


def _server_from(name: str, said: Mapping[str, Any]) -> ServerSettings:
    plain = dict(said)
    for key in ("token_file", "directory"):
        if key in plain:
            plain[key] = Path(plain[key])
    try:
        return ServerSettings(**{**plain, "command": tuple(plain.get("command", ()))})
    except ValueError as problem:
        raise ValueError(f"servers.{name}: {problem}") from None
