"""Settings of runner `a2a`."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from sidecar.policy.targets import is_this_machine

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "target": {"type": "string", "description": "Agent for definitions that name none."},
        "context": {
            "enum": ["call", "conversation"],
            "description": "What shares a `contextId`: the attempts of one call, or all calls of a conversation.",
        },
        "token_file": {"type": "string", "description": "Holds a bearer token for the agents; read for each attempt."},
        "signing_key_file": {"type": "string", "description": "Key with which the user's identity is signed."},
        "signing_key_id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,59}$", "description": "Its name."},
        "share_grant": {
            "type": "boolean",
            "description": "Give agents on this machine the grant with which they read data through the tool gateway.",
        },
        "card_seconds": {
            "type": "number",
            "minimum": 0,
            "maximum": 86400,
            "description": "How long an agent card holds before it is fetched and checked again.",
        },
        "connect_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 60, "description": "To connect."},
        "poll_seconds": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 60,
            "description": "Between two questions to an agent that does not stream.",
        },
        "max_answer_bytes": {
            "type": "integer",
            "minimum": 65536,
            "maximum": 67108864,
            "description": "Most that an agent may send in one response or stream.",
        },
    },
    "additionalProperties": False,
}


@unique
class ContextScope(StrEnum):
    """The calls that share an A2A `contextId`."""

    CALL = "call"
    """Only the attempts of one call."""
    CONVERSATION = "conversation"
    """All calls of one conversation."""


@dataclass(frozen=True, slots=True)
class A2aSettings:
    """The settings of a runner; `SCHEMA` describes them.

    Raises:
        ValueError: only one of `signing_key_file` and `signing_key_id` is set.
    """

    target: str = ""
    context: ContextScope = ContextScope.CALL
    token_file: Path | None = None
    signing_key_file: Path | None = None
    signing_key_id: str = ""
    share_grant: bool = False
    card_seconds: float = 300.0
    connect_seconds: float = 2.0
    poll_seconds: float = 1.0
    max_answer_bytes: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check that `signing_key_file` and `signing_key_id` are both set or both absent."""
        if (self.signing_key_file is None) == bool(self.signing_key_id):
            raise ValueError("signing_key_file and signing_key_id belong together")


def settings_from(said: Mapping[str, Any]) -> A2aSettings:
    """Return the settings in a section that fits `SCHEMA`. Raises `ValueError` if they cannot be used."""
    plain = dict(said)
    for key in ("token_file", "signing_key_file"):
        if key in plain:
            plain[key] = Path(plain[key])
    return A2aSettings(**{**plain, "context": ContextScope(plain.get("context", ContextScope.CALL))})


@dataclass(frozen=True, slots=True)
class Target:
    """The address of an agent.

    Attributes:
        url: URL below which the agent publishes its card, without a slash at the end.
        pin: required digest of the card; empty: every card that passes the checks is accepted.
        is_local: whether the agent runs on this machine.
    """

    url: str
    pin: str
    is_local: bool

    def covers(self, url: str) -> bool:
        """Return whether a URL has the agent's origin: equal scheme, host and port."""
        try:
            return _origin(urlsplit(url)) == _origin(urlsplit(self.url))
        except ValueError:
            return False


def target_from(said: str) -> Target:
    """Return the agent that a target names, such as `https://agents.example/shop#sha256:<64 digits>`.

    Raises:
        ValueError: the target is invalid, or would transfer users' data unencrypted to another machine.
    """
    url, _, pin = said.partition("#")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError("a runner of kind `a2a` needs a target, e.g. https://agents.example/shop")
    if parts.username is not None or parts.password is not None or parts.query:
        raise ValueError("the target of a runner of kind `a2a` must hold no user name, password or query")
    local = is_this_machine(host)
    if parts.scheme == "http" and not local:
        raise ValueError("the target of a runner of kind `a2a` must be https:// beyond this machine")
    if pin and not pin.startswith("sha256:"):
        raise ValueError("the part of the target behind `#` must be the digest of the agent card, sha256:...")
    return Target(url.rstrip("/"), pin, local)


def _origin(parts: SplitResult) -> tuple[str, str | None, int]:
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
