"""The network settings of connector `grpc`."""

from sidecar.adapters.token_exchange.settings import TokenExchangeSettings
from sidecar.settings.section import setting
from sidecar.settings.tls import ClientTlsSettings
from subagents_tls.files import TlsFiles


class GrpcConnectorSettings(ClientTlsSettings, TokenExchangeSettings):
    """Settings of connector `grpc`. The time for one call is the tool's, not set here."""

    allow_remote: bool = setting(
        False,
        description="Reach services beyond this machine without `ca_file`. Nothing is encrypted or authenticated then: "
        "only behind a mesh that does both.",
    )
    max_body_bytes: int = setting(1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="Largest answer.")
    max_connections: int = setting(64, ge=1, le=4096, description="Most services connected to at a time.")
    keepalive_seconds: float = setting(
        10.0, ge=1, le=3600, description="How often a connection with a call on it is probed while it is silent."
    )
    keepalive_timeout_seconds: float = setting(
        3.0, gt=0, le=60, description="A connection whose probe is not answered for this long is given up."
    )

    @property
    def token_endpoint_tls(self) -> TlsFiles:
        """The certificates of connections to the token endpoint; without files the bundled public authorities."""
        return self.tls or TlsFiles()

    def _check(self) -> None:
        ClientTlsSettings._check(self)  # noqa: SLF001  its own bases, neither of which knows of the other
        TokenExchangeSettings._check(self)  # noqa: SLF001  the same reason
