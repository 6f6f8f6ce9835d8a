"""Settings of TLS that the built-in runner and connectors over gRPC share."""

from pathlib import Path

from sidecar.settings.section import Section, setting
from subagents_tls.files import TlsFiles


class ClientTlsSettings(Section):
    """Certificates of connections that the sidecar opens, as a base of the settings of what opens them."""

    ca_file: str | None = setting(
        None,
        description="PEM file of the authorities of the servers. With it, every TCP address is reached with TLS.",
    )
    client_certificate_file: str | None = setting(
        None, description="PEM file of the sidecar's certificate. All three files are followed when they change."
    )
    client_key_file: str | None = setting(None, description="PEM file of its key; must not be readable for every user.")
    server_name: str = setting(
        "", description="Name that the server's certificate must have; empty: the host of the address."
    )

    @property
    def tls(self) -> TlsFiles | None:
        """The files; None: connections are not encrypted."""
        if self.ca_file is None:
            return None
        return TlsFiles(
            ca_file=Path(self.ca_file),
            certificate_file=_path(self.client_certificate_file),
            key_file=_path(self.client_key_file),
            server_name=self.server_name,
        )

    def _check(self) -> None:
        if self.ca_file is None and (self.client_certificate_file or self.client_key_file or self.server_name):
            raise ValueError("ca_file is required for TLS: without it, no certificate would be sent or compared")
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            raise ValueError("give both client_certificate_file and client_key_file")


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
