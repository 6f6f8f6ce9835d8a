"""Settings of the audit sink `webhook`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidecar.policy.targets import problem_with_url
from sidecar_audit_webhook.events import TYPES
from subagents_tls.files import TlsFiles

ANY: Final = "*"
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "Where events are sent. It may have a query; redirects fail."},
        "source": {
            "type": "string",
            "pattern": "^[!-~]{1,200}$",
            "description": "Names this deployment as a URI reference; another value for each record.",
        },
        "secret_file": {
            "type": "string",
            "minLength": 1,
            "description": "One or two secrets (`whsec_…`), one a line, the newest first; read again when it changes.",
        },
        "types": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string"},
            "description": "Types of events to send, in full or as a beginning with `*`; unset: all.",
        },
        "timeout_seconds": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 9,
            "description": "Of one request; the sidecar gives a batch ten seconds.",
        },
        "connect_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 9, "description": "To connect."},
        "ca_file": {"type": "string", "description": "PEM of the authorities to trust; unset: the usual ones."},
        "client_certificate_file": {"type": "string", "description": "PEM, for mutual TLS."},
        "client_key_file": {"type": "string", "description": "PEM, of that certificate."},
    },
    "required": ["url", "source", "secret_file"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The settings of a sink; `SCHEMA` describes them.

    Raises:
        ValueError: the URL is invalid or not encrypted, no event has one of `types`, or only one of certificate and key
            is set.
    """

    url: str
    source: str
    secret_file: Path
    types: tuple[str, ...] = (ANY,)
    timeout_seconds: float = 5.0
    connect_seconds: float = 2.0
    ca_file: Path | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None

    def __post_init__(self) -> None:
        """Check the conditions that the JSON schema does not express."""
        problem = problem_with_url(self.url, "everyone on the way could read who stopped what, and why", query=True)
        if problem is not None:
            raise ValueError(f"url {problem}")
        for chosen in self.types:
            if not any(_fits(each, chosen) for each in TYPES):
                raise ValueError(f"types: no event has the type `{chosen}`")
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            raise ValueError("client_certificate_file and client_key_file belong together")

    @property
    def tls(self) -> TlsFiles:
        """The files of the sink's certificates."""
        return TlsFiles(
            ca_file=self.ca_file, certificate_file=self.client_certificate_file, key_file=self.client_key_file
        )

    def wants(self, type_of_event: str) -> bool:
        """Return whether events of a type are sent."""
        return any(_fits(type_of_event, chosen) for chosen in self.types)


def settings_from(said: Mapping[str, Any]) -> WebhookSettings:
    """Return the settings in a section that fits `SCHEMA`. Raises `ValueError` if they cannot be used."""
    files = {name for name in SCHEMA["properties"] if name.endswith("_file")}
    plain: dict[str, Any] = {name: Path(value) if name in files else value for name, value in said.items()}
    if "types" in plain:
        plain["types"] = tuple(plain["types"])
    return WebhookSettings(**plain)


def _fits(type_of_event: str, chosen: str) -> bool:
    if chosen.endswith(ANY):
        return type_of_event.startswith(chosen.removesuffix(ANY))
    return type_of_event == chosen
