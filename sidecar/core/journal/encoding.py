"""Facts as bytes: MessagePack without field names, each part after the number of its format version.

An unknown version, kind, event or field is refused: skipping a fact would change the state of the turn.

Databases store these bytes, and links are computed over them, so the same fact must always give the same bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from sidecar.core.decoding import DecodeError, MsgpackDecoder
from sidecar.core.journal.chain import digest_of_texts, link_of
from sidecar.core.journal.entries import Draft, Fact, Stored
from sidecar.core.journal.facts import Body
from sidecar.core.journal.texts import Texts

VERSION: Final = 1
"""The version that is written. Every version up to this one can be read."""
SALT_BYTES: Final = 16

Kind = TypeVar("Kind")
Readers = Mapping[int, Callable[[msgspec.Raw], Kind]]
"""Decoders by format version."""


class UnreadableFact(Exception):
    """A fact has a newer format or an unknown kind, or is damaged. The message says which."""


class _Versioned(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    version: int
    written: msgspec.Raw


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_VERSIONED: Final = MsgpackDecoder[_Versioned](_Versioned).decode
BODIES: Final[Readers[Body]] = MappingProxyType({VERSION: MsgpackDecoder[Body](Body).decode})
TEXTS: Final[Readers[Texts]] = MappingProxyType({VERSION: MsgpackDecoder[Texts](Texts).decode})


def fact_of(draft: Draft, links: Sequence[bytes]) -> Fact:
    """Return a draft as a fact.

    Args:
        draft: the draft.
        links: of the facts that it follows, see `heads.links_of`.
    """
    # Encoded once: the link covers exactly the stored bytes. A later encoder that orders or omits a field differently
    # does not change the links of stored facts.
    body, texts = _ENCODE((VERSION, draft.body)), _ENCODE((VERSION, draft.texts))
    unlinked = Stored(draft.turn_id, draft.by, draft.at, body, texts, draft.salt, None, b"")
    link = link_of(unlinked, links)
    return Fact(draft, msgspec.structs.replace(unlinked, link=link), tuple(links))


def draft_of(stored: Stored, bodies: Readers[Body] = BODIES, texts: Readers[Texts] = TEXTS) -> Draft:
    """Return the contents of a stored fact; without texts if they were erased. Raises `UnreadableFact`."""
    body, said = body_of(stored, bodies), texts_of(stored, texts)
    # An erased fact has no salt. No draft has an empty salt, so the fact is never taken for a repeated draft.
    return Draft(stored.turn_id, stored.by, stored.at, body, said, stored.salt or b"")


def body_of(stored: Stored, bodies: Readers[Body] = BODIES) -> Body:
    """Return the body of a stored fact, which the rules read. Raises `UnreadableFact`."""
    return _read(stored.body, bodies, "fact")


def texts_of(stored: Stored, texts: Readers[Texts] = TEXTS) -> Texts:
    """Return the texts of a stored fact, none if they were erased. Raises `UnreadableFact`."""
    return Texts() if stored.texts is None else _read(stored.texts, texts, "texts")


def erased(stored: Stored, under: str | None = None) -> Stored:
    """Return a fact without its texts and their salt, and with the id of the marker; its link does not change."""
    # Erased before, under an earlier marker, which stays: the second erasure has nothing to add.
    if stored.texts is None:
        return stored
    # Computed while texts and salt still exist; from now on the link is verified with it.
    digest = digest_of_texts(stored)
    return msgspec.structs.replace(stored, texts=None, salt=None, texts_digest=digest, erased_under=under)


def size_of(stored: Stored) -> int:
    """Return the size of a fact in a database, in bytes, without the ids of its turn and its sidecar."""
    parts = (stored.body, stored.texts, stored.salt, stored.texts_digest, stored.link)
    return sum(len(part) for part in parts if part is not None)


def _read(raw: bytes, readers: Readers[Kind], what: str) -> Kind:
    try:
        versioned = _VERSIONED(raw)
        # The version is read first, so that a newer format gives a clear error instead of a decoding error somewhere
        # inside.
        reader = readers.get(versioned.version)
        if reader is None:
            raise UnreadableFact(
                f"a {what} is of format version {versioned.version}; this sidecar reads up to {max(readers)}"
            )
        return reader(versioned.written)
    except DecodeError as error:
        raise UnreadableFact(f"a {what} cannot be read: {error}") from None
