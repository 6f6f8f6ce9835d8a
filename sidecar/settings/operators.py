"""Who may operate the sidecar."""

from datetime import timedelta
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from sidecar.core.operators.key_limits import PATTERN
from sidecar.core.roles import Role
from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration, SocketPath

Algorithm = Literal["RS256", "ES256", "EdDSA"]
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class IssuerSettings(Section):
    """An OIDC issuer whose tokens count as role tokens. Needs the extra `oidc`."""

    url: str = setting(
        min_length=1, max_length=512, description="The issuer: what `iss` has to say, character by character."
    )
    audience: str = setting(min_length=1, max_length=512, description="What `aud` has to be, or to hold.")
    jwks_file: Path | None = setting(
        None, description="File with the issuer's public keys, a JWKS; read again and again."
    )
    jwks_url: str | None = setting(
        None, description="Where the issuer has its public keys: https, or http on the loopback. Either this or a file."
    )
    algorithms: tuple[Algorithm, ...] = setting(
        ("RS256", "ES256", "EdDSA"), min_length=1, description="How tokens may be signed; no other way counts."
    )
    subject_claim: str = setting("sub", min_length=1, description="Claim that says who calls; goes into the audit.")
    role_claim: str = setting(
        "roles", min_length=1, description="Claim with a text, or a list of texts, that `roles` maps."
    )
    roles: dict[str, Role] = setting(
        min_length=1, description="Role by what the claim says. A token that means none, or several, is refused."
    )
    refresh: Duration = setting(
        timedelta(minutes=5), ge=timedelta(seconds=10), description="Between two fetches of the keys."
    )
    keys_kept: Duration = setting(
        timedelta(hours=1),
        le=timedelta(days=1),
        description="Keys that were fetched longer ago are invalid: without the issuer, its tokens are refused.",
    )

    def _check(self) -> None:
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


class OperatorKeySettings(Section):
    """A key whose role tokens count only for some roles and subjects."""

    file: Path = setting(description="File with the public key (Ed25519, PEM).")
    roles: tuple[Role, ...] = setting(min_length=1, description="Roles that its tokens may have.")
    subjects: tuple[str, ...] = setting(
        min_length=1,
        description='Subjects of its tokens: `"ada@example"`, those of a domain `"*@example"`, or all `"*"`.',
    )

    def _check(self) -> None:
        wrong = next((each for each in self.subjects if not PATTERN.fullmatch(each)), None)
        if wrong is not None:
            raise ValueError(f"{wrong[:60]!r} is neither a subject, nor `*@` and a domain, nor `*`")


class OperatorSettings(Section):
    """Who may operate the sidecar, and where it listens to them."""

    socket: SocketPath = setting(
        Path("/run/sidecar/operators/sidecar.sock"),
        description="Unix socket for operators. Its directory is made with mode 0700; an open one is refused.",
    )
    deployment: str = setting(
        "", max_length=128, description="Name of this deployment: a role token has to be for exactly this one."
    )
    keys: tuple[Path, ...] = setting(
        (),
        description="Files with the public keys (Ed25519, PEM) whose role tokens count for every role and subject: "
        "a holder can act as any operator. Removing a key revokes all its tokens. Without keys and an issuer there is "
        "no operator listener.",
    )
    key: dict[str, OperatorKeySettings] = setting(
        {}, description="Keys that are for some roles and subjects only, by a name for messages and logs."
    )
    issuer: IssuerSettings | None = setting(None, description="An OIDC issuer whose tokens count, too.")
    streams: int = setting(64, ge=1, description="Most calls at a time on one connection of an operator.")

    @property
    def configured(self) -> bool:
        """Whether there is a key or an issuer: else the sidecar does not listen for operators."""
        return bool(self.keys or self.key or self.issuer)

    def _check(self) -> None:
        if (self.keys or self.key) and not self.deployment:
            raise ValueError("deployment is empty; name it, so that no token of another deployment counts here")
