"""Settings of the gate client `http`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidecar.policy.targets import problem_with_url
from subagents_tls.files import TlsFiles

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "Where the gate service is; `/v1/evaluations` is added."},
        "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 60, "description": "Of one attempt."},
        "connect_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 60, "description": "To connect."},
        "attempts": {
            "type": "integer",
            "minimum": 1,
            "maximum": 5,
            "description": "How often a question is sent whose connection fails. An answer is never asked for again.",
        },
        "wait_seconds": {"type": "number", "minimum": 0, "maximum": 10, "description": "Between two attempts."},
        "token_file": {"type": "string", "description": "Holds a bearer token; read at each question."},
        "ca_file": {"type": "string", "description": "PEM of the authorities to trust; unset: the usual ones."},
        "client_certificate_file": {"type": "string", "description": "PEM, for mutual TLS."},
        "client_key_file": {"type": "string", "description": "PEM, of that certificate."},
    },
    "required": ["url"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class HttpGateSettings:
    """The settings of a client; `SCHEMA` describes them.

    Raises:
        ValueError: the URL is invalid or would transfer a token unencrypted to another machine, or only one of
            certificate and key is set.
    """

    url: str
    timeout_seconds: float = 5.0
    connect_seconds: float = 2.0
    attempts: int = 2
    wait_seconds: float = 0.2
    token_file: Path | None = None
    ca_file: Path | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None

    def __post_init__(self) -> None:
        """Check the conditions that the JSON schema does not express."""
        problem = problem_with_url(self.url, "an attacker who can change the answer can promote")
        if problem is not None:
            raise ValueError(f"url {problem}")
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            raise ValueError("client_certificate_file and client_key_file belong together")

    @property
    def tls(self) -> TlsFiles:
        """The files of the client's certificates."""
        return TlsFiles(
            ca_file=self.ca_file, certificate_file=self.client_certificate_file, key_file=self.client_key_file
        )

    @property
    def endpoint(self) -> str:
        """The URL that receives the questions."""
        return f"{self.url.rstrip('/')}/v1/evaluations"


def settings_from(said: Mapping[str, Any]) -> HttpGateSettings:
    """Return the settings in a section that fits `SCHEMA`. Raises `ValueError` if they contradict each other."""
    files = {name for name in SCHEMA["properties"] if name.endswith("_file")}
    plain: dict[str, Any] = {name: Path(value) if name in files else value for name, value in said.items()}
    return HttpGateSettings(**plain)
