"""The sections `[operators]`, which says whose role tokens are valid, and `[principals]`, which does so for users."""

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


class JwksSettings(Section):
    """An issuer of tokens and its public keys. Needs the extra `oidc`."""

    url: str = setting(min_length=1, max_length=512, description="The exact value of the `iss` claim.")
    audience: str = setting(
        min_length=1, max_length=512, description="A value that the `aud` claim must be or contain."
    )
    jwks_file: Path | None = setting(
        None, description="File with the issuer's public keys, a JWKS; reloaded at the refresh interval."
    )
    jwks_url: str | None = setting(
        None, description="URL of the issuer's public keys: https, or http on loopback. Either this or `jwks_file`."
    )
    algorithms: tuple[Algorithm, ...] = setting(
        ("RS256", "ES256", "EdDSA"), min_length=1, description="Permitted signature algorithms."
    )
    refresh: Duration = setting(
        timedelta(minutes=5), ge=timedelta(seconds=10), description="Interval between two fetches of the keys."
    )
    max_key_age: Duration = setting(
        timedelta(hours=1),
        le=timedelta(days=1),
        description="Maximum age of fetched keys. After it the issuer's tokens are refused until a fetch succeeds.",
    )

    def _check(self) -> None:
        # With both, a key that the issuer revoked would stay valid while the file still contains it.
        if (self.jwks_file is None) == (self.jwks_url is None):
            raise ValueError("give either jwks_file or jwks_url, not both")
        if self.jwks_url is not None:
            parts = urlsplit(self.jwks_url)
            if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
                raise ValueError(
                    "jwks_url must be https, or http on loopback: an attacker who replaces the keys can sign any token"
                )
            # Logs show the URL, and so a password in it.
            if not parts.hostname or parts.username is not None:
                raise ValueError("jwks_url needs a host and must not contain a user")
        # With a shorter age, every token would be refused for a while in each interval, although the issuer is
        # reachable.
        if self.max_key_age <= self.refresh:
            raise ValueError("max_key_age must be longer than refresh; otherwise the keys expire between two fetches")


class IssuerSettings(JwksSettings):
    """An OIDC issuer whose tokens count as role tokens. Needs the extra `oidc`."""

    subject_claim: str = setting("sub", min_length=1, description="Claim that identifies the caller, for the audit.")
    role_claim: str = setting(
        "roles", min_length=1, description="Claim with a text, or a list of texts, that `roles` maps."
    )
    roles: dict[str, Role] = setting(
        min_length=1,
        description="Maps values of the claim to roles. A token that yields no role, or several, is refused.",
    )


class PrincipalsSettings(JwksSettings):
    """An issuer of tokens that prove a turn's user. With it, the consumer-agent cannot merely assert the user."""

    principal_claim: str = setting("sub", min_length=1, description="Claim that becomes the principal, byte for byte.")
    leeway: Duration = setting(
        timedelta(seconds=30), ge=timedelta(0), le=timedelta(minutes=2), description="Permitted difference of clocks."
    )
    longest_life: Duration = setting(
        timedelta(hours=1),
        gt=timedelta(0),
        le=timedelta(days=1),
        description="A token that is valid for longer is refused.",
    )
    asserted_sources: tuple[Literal["scheduled", "notification"], ...] = setting(
        (),
        description="Kinds of turns without a user at hand, whose principal the consumer-agent may still assert.",
    )


class OperatorKeySettings(Section):
    """A key whose role tokens are restricted to some roles and subjects."""

    file: Path = setting(
        description="File with the public key (Ed25519, PEM), or with several during a rotation. It is followed when "
        "it changes."
    )
    roles: tuple[Role, ...] = setting(min_length=1, description="Roles that its tokens may have.")
    subjects: tuple[str, ...] = setting(
        min_length=1,
        description='Subjects of its tokens: `"ada@example"`, those of a domain `"*@example"`, or all `"*"`.',
    )

    def _check(self) -> None:
        # A pattern of another form would match no subject, so the key would be useless without a message.
        wrong = next((each for each in self.subjects if not PATTERN.fullmatch(each)), None)
        if wrong is not None:
            raise ValueError(f"{wrong[:60]!r} is neither a subject, nor `*@` and a domain, nor `*`")


class OperatorSettings(Section):
    """Operators and their listener."""

    socket: SocketPath = setting(
        Path("/run/sidecar/operators/sidecar.sock"),
        description="Unix socket for operators. Its directory is created with mode 0700; one with wider access "
        "is refused.",
    )
    deployment: str = setting(
        "", max_length=128, description="Name of this deployment. A role token must name exactly this deployment."
    )
    keys: tuple[Path, ...] = setting(
        (),
        description="Files with the public keys (Ed25519, PEM) whose role tokens are valid for every role and subject: "
        "the holder of such a key can act as any operator. Removing a key revokes all its tokens. Without keys and "
        "an issuer there is "
        "no operator listener.",
    )
    key: dict[str, OperatorKeySettings] = setting({}, description="Restricted keys, by a name for messages and logs.")
    issuer: IssuerSettings | None = setting(None, description="An OIDC issuer whose tokens count, too.")
    streams: int = setting(64, ge=1, description="Maximum number of concurrent calls on one connection of an operator.")

    @property
    def configured(self) -> bool:
        """Whether there is a key or an issuer. Otherwise the sidecar does not listen for operators."""
        return bool(self.keys or self.key or self.issuer)

    def _check(self) -> None:
        # Otherwise a token for the test deployment would be valid in production, if both trust the same key.
        if (self.keys or self.key) and not self.deployment:
            raise ValueError("deployment is empty; name it, so that no token of another deployment counts here")
