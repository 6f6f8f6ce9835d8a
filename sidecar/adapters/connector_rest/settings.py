"""The network settings of connector `rest`."""

from pathlib import Path
from urllib.parse import urlsplit

from sidecar.adapters.connector_rest.endpoints import problem_with_endpoint
from sidecar.settings.operators import LOOPBACK
from sidecar.settings.section import Section, setting
from subagents_tls.files import TlsFiles


class RestSettings(Section):
    """Settings of connector `rest`. The time for one call is the tool's, not set here."""

    max_connections: int = setting(64, ge=1, le=4096, description="Most connections to all data services together.")
    max_idle_connections: int = setting(16, ge=0, le=4096, description="Most connections kept open between calls.")
    idle_seconds: float = setting(
        4.0, gt=0, le=300, description="A connection idle for longer is closed. Keep it below the service's own limit."
    )
    connect_seconds: float = setting(2.0, gt=0, le=60, description="Longest time for making one connection.")
    max_body_bytes: int = setting(
        1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="Largest answer, after decompression."
    )
    ca_file: str | None = setting(None, description="PEM file of authorities for https; none: the bundled public ones.")
    client_certificate_file: str | None = setting(
        None, description="PEM file of the sidecar's certificate for https. The files are followed when they change."
    )
    client_key_file: str | None = setting(None, description="PEM file of its key; must not be readable for every user.")

    token_endpoint: str | None = setting(
        None,
        description="URL of a token endpoint (RFC 8693). The user's token is exchanged there, and the data service "
        "gets `Authorization: Bearer` with the result. Needs `[principals]`. Unset: no exchange.",
    )
    token_audience: str | None = setting(
        None, min_length=1, description="`audience` of the token for the data service."
    )
    token_scope: str | None = setting(None, min_length=1, description="`scope` of it; none: none is asked for.")
    token_client_id: str | None = setting(None, min_length=1, description="Client id of the sidecar at that endpoint.")
    token_client_secret_file: str | None = setting(
        None, description="File with the client's secret; read at each exchange."
    )
    token_seconds: float = setting(5.0, gt=0, le=60, description="Longest time for one exchange.")

    @property
    def tls(self) -> TlsFiles:
        """The files."""
        named = (self.ca_file, self.client_certificate_file, self.client_key_file)
        ca, certificate, key = (None if each is None else Path(each) for each in named)
        return TlsFiles(ca_file=ca, certificate_file=certificate, key_file=key)

    def _check(self) -> None:
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            raise ValueError("give both client_certificate_file and client_key_file")
        if not self.token_endpoint:
            return
        problem = problem_with_endpoint(self.token_endpoint)
        parts = urlsplit(self.token_endpoint)
        if problem is None and parts.scheme != "https" and parts.hostname not in LOOPBACK:
            problem = "must begin with https://, unless it is on loopback: it gets the tokens of users"
        if problem is not None:
            raise ValueError(f"token_endpoint {problem}")
        if not (self.token_audience and self.token_client_id and self.token_client_secret_file):
            raise ValueError("token_endpoint needs token_audience, token_client_id and token_client_secret_file")
