"""The network settings of runner `grpc`."""

from sidecar.settings.section import setting
from sidecar.settings.tls import ClientTlsSettings


class GrpcRunnerSettings(ClientTlsSettings):
    """Settings of runner `grpc`. The time for one attempt is the definition's, not set here."""

    target: str | None = setting(
        None, description="Host for definitions that name none, as a gRPC target: `unix:/run/shop.sock`, `xds:///shop`."
    )
    allow_remote: bool = setting(
        False,
        description="Reach hosts beyond this machine without `ca_file`. Nothing is encrypted or authenticated then: "
        "only behind a mesh that does both.",
    )
    max_message_bytes: int = setting(
        4 * 1024 * 1024, ge=64 * 1024, le=64 * 1024 * 1024, description="Largest message that a host may send."
    )
    keepalive_seconds: float = setting(
        10.0,
        ge=1,
        le=3600,
        description="How often a silent connection is probed; without it, a host that was cut off "
        "is noticed at the attempt's deadline only.",
    )
    keepalive_timeout_seconds: float = setting(
        3.0, gt=0, le=60, description="A connection whose probe is not answered for this long is given up."
    )
