"""Settings of the flag backend `unleash`."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "Where Unleash is; `/api/client` and `/api/admin` are added."},
        "environment": {
            "type": "string",
            "pattern": "^[A-Za-z0-9_.~-]{1,100}$",
            "description": "Whose flags are read and switched; the client token has to be of it.",
        },
        "token_file": {"type": "string", "description": "Holds a client (backend) token; read at each question."},
        "admin_token_file": {
            "type": "string",
            "description": "Holds a token that may create and switch flags; unset: a person switches them.",
        },
        "project": {
            "type": "string",
            "pattern": "^[A-Za-z0-9_.~-]{1,100}$",
            "description": "Where flags are created that are not there yet; `default` unless said.",
        },
        "poll_seconds": {
            "type": "number",
            "minimum": 0.2,
            "maximum": 60,
            "description": "Seconds between two looks for a change; 1 unless said.",
        },
        "ca_file": {"type": "string", "description": "PEM of the authorities to trust; unset: the usual ones."},
    },
    "required": ["url", "environment", "token_file"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class UnleashSettings:
    """What a backend is made from; see `SCHEMA`.

    Raises:
        ValueError: the URL is none, or would carry a token in the open.
    """

    url: str
    environment: str
    token_file: Path
    admin_token_file: Path | None = None
    project: str = "default"
    poll_seconds: float = 1.0
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        """Check what a JSON schema cannot."""
        problem = _problem_with(self.url)
        if problem is not None:
            raise ValueError(f"url {problem}")


def settings_from(said: Mapping[str, Any]) -> UnleashSettings:
    """Return settings that fit `SCHEMA`. Raises `ValueError`."""
    plain: dict[str, Any] = {name: Path(value) if name.endswith("_file") else value for name, value in said.items()}
    return UnleashSettings(**plain)


def _problem_with(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in {"http", "https"} or not host:
        return "must begin with http:// or https:// and name a host"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        return "must hold no user name, password, query or fragment"
    if parts.scheme == "http" and not _on_this_machine(host):
        return "must be https:// beyond this machine: who can change the answer can switch flags"
    return None


def _on_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
