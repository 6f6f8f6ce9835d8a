"""The surface in signed form, so that any process with the same key and definitions can serve the turn.

Layout: `v1.<key id>.<base64url of the claims as JSON>.<base64url of HMAC-SHA256 over everything before it>`. Opaque to
clients: signed, not secret.
"""

import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

import msgspec

from sidecar.core.binding.cohort import Cohort
from sidecar.core.decoding import DecodeError, base64url, from_base64url, from_json
from sidecar.core.errors import SurfaceTokenInvalid
from sidecar.core.identifiers import DefinitionId, Digest, EpisodeId, Principal, Slot, TurnId

VERSION: Final = "v1"
SHORTEST_KEY: Final = 32
"""Minimum number of bytes of a key."""
PARTS: Final = 4
LONGEST: Final = 64 * 1024
"""The most characters; a longer token is refused without parsing."""


class SurfaceClaims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything of a turn that cannot be rebuilt from the definitions.

    Attributes:
        source: where the turn comes from: `chat`, `scheduled` or `notification`.
        date: of the user, `YYYY-MM-DD`; in UTC if the client sent none.
        tools: (slot, digest of the serving card), in order.
        candidates: (slot, definition id or None, verdict).
        previous: slots of the episode's last dispatching turn; None if unknown.
        arm, flags, versions: the fields of the cohort.
        verified: a user token proved the principal; otherwise the consumer-agent claimed it.
    """

    turn_id: TurnId
    episode_id: EpisodeId
    principal: Principal
    source: str
    locale: str | None
    location: str | None
    date: str
    orchestrator_digest: Digest
    orchestrator_id: str = ""
    tools: tuple[tuple[Slot, Digest], ...]
    candidates: tuple[tuple[Slot, DefinitionId | None, str], ...]
    versions: tuple[str, str, str]
    flags: tuple[str, ...]
    arm: str
    previous: tuple[Slot, ...] | None
    fan_out_cap: int
    max_dispatches: int
    bound_at: datetime
    expires_at: datetime
    verified: bool = False


class KeySet(msgspec.Struct, frozen=True):
    """The keys of a deployment at one time.

    Attributes:
        secrets: by key id; at least 32 bytes each. The first one of the id `signing` signs, all verify.
        signing: id of the key that signs.
    """

    secrets: Mapping[str, Sequence[bytes]]
    signing: str

    def __post_init__(self) -> None:
        """Refuse keys that are too short, and a missing signing key. Raises `ValueError`."""
        if not self.secrets.get(self.signing):
            raise ValueError(f"the signing key {self.signing!r} is not among the keys")
        short = [key_id for key_id, every in self.secrets.items() if any(len(each) < SHORTEST_KEY for each in every)]
        if short:
            raise ValueError(f"keys need 32 bytes or more; too short: {', '.join(sorted(short))}")


class SigningKeys:
    """Signs and verifies with the keys of a deployment, which can be replaced.

    Args:
        keys: secret bytes by key id, or several of one id; at least 32 bytes each.
        signing: id of the key that signs.

    Raises:
        ValueError: a key is too short, or `signing` is not among them.
    """

    def __init__(self, keys: Mapping[str, bytes | Sequence[bytes]], signing: str) -> None:
        """Set the keys."""
        every = {key_id: (each,) if isinstance(each, bytes) else tuple(each) for key_id, each in keys.items()}
        # One value with all keys, so that `adopt` replaces them together.
        self._held = KeySet(every, signing)

    def adopt(self, keys: KeySet) -> None:
        """Sign and verify with other keys from the next call on."""
        self._held = keys

    def sign(self, purpose: str, body: bytes) -> str:
        """Return `<version>.<key id>.<body>.<mac>`; `purpose` prevents that one kind of token passes as another."""
        held = self._held
        head = f"{VERSION}.{held.signing}.{base64url(body)}"
        return f"{head}.{base64url(_mac(held.secrets[held.signing][0], purpose, head))}"

    def open(self, purpose: str, token: str) -> bytes | None:
        """Return the signed body, or None if none of the keys has signed the token."""
        # Before any work: any caller can send a token, and a long one would cost a MAC over all of it.
        parts = token.split(".") if len(token) <= LONGEST and token.isascii() else []
        if len(parts) != PARTS or parts[0] != VERSION:
            return None
        secrets = self._held.secrets.get(parts[1], ())
        # The MAC covers the text as it was sent. Nothing is decoded and encoded again, so a second spelling of the same
        # claims does not verify.
        head = token[: -len(parts[3]) - 1]
        # Only decoded; the claims are parsed after the MAC has been verified, never before.
        mac, body = _decode(parts[3]), _decode(parts[2])
        if mac is None or body is None:
            return None
        # Several secrets of one id: while a key is being replaced, replicas may sign with the old or the new one.
        for secret in secrets:
            # In constant time: `==` would tell an attacker by its duration how many bytes of a forged MAC are right.
            if hmac.compare_digest(mac, _mac(secret, purpose, head)):
                return body
        return None


def _mac(secret: bytes, purpose: str, head: str) -> bytes:
    return hmac.digest(secret, f"{purpose}\x1f{head}".encode(), sha256)


def sign_token(claims: SurfaceClaims, keys: SigningKeys) -> str:
    """Return the surface token for `claims`."""
    return keys.sign("surface", msgspec.json.encode(claims))


def verify_token(token: str, keys: SigningKeys) -> SurfaceClaims:
    """Return the claims of a token. The caller checks the expiry, which is another reason for a refusal.

    Raises:
        SurfaceTokenInvalid: not signed with one of `keys`, altered, or not a surface token.
    """
    body = keys.open("surface", token)
    if body is None:
        raise SurfaceTokenInvalid("the surface token is not one of this deployment; send the one BindTurn returned")
    try:
        return from_json(body, SurfaceClaims)
    except DecodeError:
        # The signature is genuine, so only a sidecar with other claims can have made the token.
        raise SurfaceTokenInvalid("the surface token is of another version; bind the turn again") from None


def _decode(text: str) -> bytes | None:
    try:
        return from_base64url(text)
    except DecodeError:
        return None


def cohort_of(claims: SurfaceClaims) -> Cohort:
    """Return the cohort that a turn was bound in."""
    return Cohort(
        agent_definition_version=claims.versions[0],
        prompt_block_registry_version=claims.versions[1],
        xml_prompt_component_registry_version=claims.versions[2],
        active_feature_flags=claims.flags,
        experiment_arm_assignment=claims.arm,
        active_sub_agents=tuple(slot for slot, _ in claims.tools),
    )
