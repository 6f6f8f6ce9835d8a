"""The keys of operators from the settings, with the limits of each."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct

from sidecar.adapters.checkpoints import Ed25519Judge, KeyFileProblem, key_id_of, read_public_keys_in
from sidecar.core.operators.key_limits import ANY_SUBJECT, KeyLimits
from sidecar.core.roles import Role
from sidecar.core.signatures import SignatureVerifier
from sidecar.settings import SettingsProblem
from sidecar.settings.operators import OperatorSettings


class OperatorKeys(Struct, frozen=True):
    """The operators' keys.

    Attributes:
        judge: verifies signatures that were made with these keys.
        limits: the limits of each key, by the key's id.
    """

    judge: SignatureVerifier
    limits: Mapping[str, KeyLimits]

    @property
    def anybody_beside_others(self) -> tuple[str, ...]:
        """Names (as in the settings) of the keys without limits; empty if no other key has limits.

        The limits of the other keys have no effect for a person who also has one of these keys.
        """
        free = tuple(each.name for each in self.limits.values() if each.is_unrestricted)
        return free if len(free) < len(self.limits) else ()


def read_operator_keys(configured: OperatorSettings) -> OperatorKeys:
    """Return the keys.

    Raises:
        SettingsProblem: a key cannot be read, or occurs twice with different limits.
    """
    keys, limits = list[Ed25519PublicKey](), dict[str, KeyLimits]()
    for setting, file, allowed in _configured_keys(configured):
        try:
            keys_in_file = read_public_keys_in(file)
        except KeyFileProblem as problem:
            raise SettingsProblem([f"{setting}: {problem}"]) from None
        for key in keys_in_file:
            # One key with two sets of limits would have the rights of the set that happens to be found first.
            first = limits.setdefault(key_id_of(key), allowed)
            if (first.roles, first.subjects) != (allowed.roles, allowed.subjects):
                raise SettingsProblem([f"{setting}: the key in {file} is {first.name}, too; name each key once"])
        keys += keys_in_file
    return OperatorKeys(Ed25519Judge(keys), limits)


def operator_key_files(configured: OperatorSettings) -> tuple[Path, ...]:
    """Return the files that contain the keys."""
    return tuple(file for _, file, _ in _configured_keys(configured))


def _configured_keys(configured: OperatorSettings) -> Iterator[tuple[str, Path, KeyLimits]]:
    """Yield the setting, the file and the limits of each configured key."""
    for file in configured.keys:
        yield "operators.keys", file, KeyLimits(f"{file}", frozenset(Role), (ANY_SUBJECT,))
    for name, key in configured.key.items():
        yield f"operators.key.{name}", key.file, KeyLimits(name, frozenset(key.roles), key.subjects)
