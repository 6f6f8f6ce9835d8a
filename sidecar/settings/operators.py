"""Who may operate the sidecar."""

from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from sidecar.core.operators.key_limits import PATTERN
from sidecar.core.roles import Role
from sidecar.settings.values import Duration, Section, SocketPath

Algorithm = Literal["RS256", "ES256", "EdDSA"]
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class IssuerSettings(Section):
    """An OIDC issuer whose tokens count as role tokens. Needs the extra `oidc`."""

    url: str = Field(
        min_length=1, max_length=512, description="The issuer: what `iss` has to say, character by character."
    )
    audience: str = Field(min_length=1, max_length=512, description="What `aud` has to be, or to hold.")
    jwks_file: Path | None = Field(
        None, description="File with the issuer's public keys, a JWKS; read again and again."
    )
    jwks_url: str | None = Field(
        None, description="Where the issuer has its public keys: https, or http on the loopback. Either this or a file."
    )
    algorithms: tuple[Algorithm, ...] = Field(
        ("RS256", "ES256", "EdDSA"), min_length=1, description="How tokens may be signed; no other way counts."
    )
    subject_claim: str = Field("sub", min_length=1, description="Claim that says who calls; goes into the audit.")
    role_claim: str = Field(
        "roles", min_length=1, description="Claim with a text, or a list of texts, that `roles` maps."
    )
    roles: dict[str, Role] = Field(
        min_length=1, description="Role by what the claim says. A token that means none, or several, is refused."
    )
    refresh: Duration = Field(
        timedelta(minutes=5), ge=timedelta(seconds=10), description="Between two fetches of the keys."
    )
    keys_kept: Duration = Field(
        timedelta(hours=1),
        le=timedelta(days=1),
        description="Keys that were last fetched longer ago count no more: without the issuer, nobody gets in.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.jwks_file is None) == (self.jwks_url is None):
            raise ValueError("give either jwks_file or jwks_url, so that it is clear whose keys count")
        if self.jwks_url is not None:
            parts = urlsplit(self.jwks_url)
            if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
                raise ValueError(
                    "jwks_url has to be https, or http on the loopback: whoever changes keys has all roles"
                )
            if not parts.hostname or parts.username is not None:
                raise ValueError("jwks_url needs a host, and takes no user")
        if self.keys_kept <= self.refresh:
            raise ValueError("keys_kept has to be longer than refresh, or the keys are too old between two fetches")
        return self


class OperatorKeySettings(Section):
    """A key whose role tokens count only for some roles and subjects."""

    file: Path = Field(description="File with the public key (Ed25519, PEM).")
    roles: tuple[Role, ...] = Field(min_length=1, description="Roles that its tokens may have.")
    subjects: tuple[str, ...] = Field(
        min_length=1,
        description='Whom its tokens may name: `"ada@example"`, anybody of a domain `"*@example"`, or anybody `"*"`.',
    )

    @model_validator(mode="after")
    def _subjects_are_some(self) -> Self:
        wrong = next((each for each in self.subjects if not PATTERN.fullmatch(each)), None)
        if wrong is not None:
            raise ValueError(f"{wrong[:60]!r} is neither a subject, nor `*@` and a domain, nor `*`")
        return self


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
        description="Files with the public keys (Ed25519, PEM) whose role tokens count for every role and subject: "
        "whoever holds one is anybody. Taking one out revokes all its tokens. Neither keys nor an issuer: there is no "
        "operator listener.",
    )
    key: dict[str, OperatorKeySettings] = Field(
        {}, description="Keys that are for some roles and subjects only, by a name for messages and logs."
    )
    issuer: IssuerSettings | None = Field(None, description="An OIDC issuer whose tokens count, too.")
    streams: int = Field(64, ge=1, description="Most calls at a time on one connection of an operator.")

    @model_validator(mode="after")
    def _named(self) -> Self:
        if (self.keys or self.key) and not self.deployment:
            raise ValueError("deployment is empty; name it, so that no token of another deployment counts here")
        return self
