"""Who may operate the sidecar."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from sidecar.settings.values import Section, SocketPath


class OperatorSettings(Section):
    """Who may operate the sidecar, and where it listens to them."""

    socket: SocketPath = Field(
        Path("/run/sidecar/operators/sidecar.sock"),
        description="Unix socket for operators. Its directory is made with mode 0700; an open one is refused.",
    )
    deployment: str = Field(
        "", max_length=128, description="Name of this deployment: a role token has to be for exactly this one."
    )
    keys: tuple[Path, ...] = Field(
        (),
        description="Files with the public keys (Ed25519, PEM) whose role tokens count. Taking one out revokes all its "
        "tokens. None: there is no operator listener.",
    )
    streams: int = Field(64, ge=1, description="Most calls at a time on one connection of an operator.")

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.keys and not self.deployment:
            raise ValueError("deployment is empty; name it, so that no token of another deployment counts here")
        return self
