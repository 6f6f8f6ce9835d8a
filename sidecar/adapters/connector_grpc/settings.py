"""How connector `grpc` uses the network."""

from pydantic import BaseModel, ConfigDict, Field


class GrpcConnectorSettings(BaseModel):
    """Settings of connector `grpc`. The time for one call is the tool's, not set here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allow_remote: bool = Field(
        False,
        description="Reach services beyond this machine. Nothing is encrypted or authenticated then: only behind a "
        "mesh that does both.",
    )
    max_body_bytes: int = Field(1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="Largest answer.")
    max_connections: int = Field(64, ge=1, le=4096, description="Most services connected to at a time.")
    keepalive_seconds: float = Field(
        10.0, ge=1, le=3600, description="How often a connection with a call on it is probed while it is silent."
    )
    keepalive_timeout_seconds: float = Field(
        3.0, gt=0, le=60, description="A connection whose probe is not answered for this long is given up."
    )
