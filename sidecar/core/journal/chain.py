"""How facts are linked: which facts each fact follows, and the hash that identifies it.

A fact links to the newest fact of each child that it concerns. A fact that concerns no existing child links to the
fact that gave its dispatch to the present owner. The first fact of a dispatch follows nothing. The end of a turn also
links to the turn's chain, which is a running hash over all facts of the turn.

A link covers a digest of the texts, not the texts, and the digest covers a random salt. Texts and salt can therefore
be erased while every link still verifies, and a short text cannot be recovered from its digest by guessing.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec

from sidecar.core.journal.entries import Stored

NOTHING: Final = b""
"""The chain of a turn before its first fact."""


def chained(chain: bytes, link: bytes) -> bytes:
    """Return the chain of a turn after one more fact; 32 bytes."""
    # Each kind of hash has its own prefix, so a value of one kind can never be taken for another.
    return sha256(b"turn\x1f" + chain + link).digest()


def texts_digest(salt: bytes, texts: bytes) -> bytes:
    """Return the digest that a link covers instead of texts; 32 bytes."""
    return sha256(b"texts\x1f" + msgspec.msgpack.encode((salt, texts))).digest()


def digest_of_texts(stored: Stored) -> bytes:
    """Return the digest of a stored fact's texts, whether they exist or were erased."""
    if stored.texts is None or stored.salt is None:
        return stored.texts_digest or b""
    return texts_digest(stored.salt, stored.texts)


def link_of(stored: Stored, links: Sequence[bytes]) -> bytes:
    """Return the link of a fact that follows `links`; 32 bytes. The stored link is not part of the input."""
    salt, texts = stored.salt, stored.texts
    # The same as `digest_of_texts`, without a call: this runs for each fact of each append.
    digest = stored.texts_digest or b"" if salt is None or texts is None else texts_digest(salt, texts)
    # The links of the predecessors are covered, so no earlier fact can be altered, removed or moved without breaking
    # the link of every later one.
    covered = (stored.turn_id, stored.by, stored.at, stored.body, digest, tuple(links))
    return sha256(b"fact\x1f" + msgspec.msgpack.encode(covered)).digest()


def rooted(root: bytes, link: bytes) -> bytes:
    """Return the running root of an instance after one more accepted fact, in the order of its journal; 32 bytes.

    Plain bytes, so that a database can compute it, too: SHA-256 over `root`, a unit separator, the root before (empty
    before the first fact) and the fact's link.
    """
    return sha256(b"root\x1f" + root + link).digest()
