"""Settings of the flag backend `unleash`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidecar.policy.targets import problem_with_url

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
    """The settings of a backend; `SCHEMA` describes them.

    Raises:
        ValueError: the URL is invalid, or would transfer the token unencrypted to another machine.
    """

    url: str
    environment: str
    token_file: Path
    admin_token_file: Path | None = None
    project: str = "default"
    poll_seconds: float = 1.0
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        """Check the URL, which the JSON schema does not."""
        problem = problem_with_url(self.url, "an attacker who can change the answer can switch flags")
        if problem is not None:
            raise ValueError(f"url {problem}")


def settings_from(said: Mapping[str, Any]) -> UnleashSettings:
    """Return the settings in a section that fits `SCHEMA`. Raises `ValueError` for an invalid URL."""
    plain: dict[str, Any] = {name: Path(value) if name.endswith("_file") else value for name, value in said.items()}
    return UnleashSettings(**plain)
