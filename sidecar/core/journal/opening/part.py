"""The building blocks of facts: structs without field names, and digests as bytes."""

from collections.abc import Iterable
from typing import Final

import msgspec

from sidecar.core.decoding import DecodeError, from_hex

Digests = bytes | tuple[str, ...]
"""Stored digests: 32 bytes each, joined; or texts, if one of them is not written as `sha256:<64 hex digits>`."""

PREFIX: Final = "sha256:"
DIGEST_BYTES: Final = 32


class Part(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Written without names: a field may be added at the end, with a default, in a new format version."""


def packed(texts: Iterable[str]) -> Digests:
    """Return digests as they are stored."""
    whole = tuple(texts)
    try:
        raw = from_hex("".join(whole).replace(PREFIX, ""))
    except DecodeError:
        return whole
    return raw if unpacked(raw) == whole else whole  # capitals and spaces are hexadecimal digits as well


def unpacked(digests: Digests) -> tuple[str, ...]:
    """Return the texts that `packed` took."""
    if isinstance(digests, tuple):
        return digests
    # `hex` counts groups from the right; they begin at a digest because each one has exactly `DIGEST_BYTES`.
    return tuple(map(PREFIX.__add__, digests.hex(" ", DIGEST_BYTES).split()))
