"""The network settings of connector `rest`."""

from pathlib import Path

from sidecar.adapters.token_exchange.settings import TokenExchangeSettings
from sidecar.settings.section import setting
from subagents_tls.files import TlsFiles


class RestSettings(TokenExchangeSettings):
    """Settings of connector `rest`. The time for one call is the tool's, not set here."""

    allow_remote: bool = setting(
        False,
        description="Send to `http://` endpoints beyond this machine. Nothing is encrypted or authenticated then: only "
        "behind a mesh that does both.",
    )
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
    client_key_file: str | None = setting(None, description="PEM file of its key; must not be readable by every user.")

    @property
    def tls(self) -> TlsFiles:
        """The files for https, as paths; None for a file that is not set."""
        named = (self.ca_file, self.client_certificate_file, self.client_key_file)
        ca, certificate, key = (None if each is None else Path(each) for each in named)
        return TlsFiles(ca_file=ca, certificate_file=certificate, key_file=key)

    def _check(self) -> None:
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            raise ValueError("give both client_certificate_file and client_key_file")
        super()._check()
