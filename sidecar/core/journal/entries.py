"""A fact on its way into the journal: drafted, linked, stored."""

from datetime import datetime

import msgspec

from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.facts import Body
from sidecar.core.journal.texts import Texts


class Draft(msgspec.Struct, frozen=True):
    """A fact before it is linked.

    Attributes:
        by: the sidecar that appends it.
        at: when it was made; aware, in UTC.
    """

    turn_id: TurnId
    by: InstanceId
    at: datetime
    body: Body
    texts: Texts


class Stored(msgspec.Struct, frozen=True):
    """What a database keeps of a fact, beside its place in the journal.

    Attributes:
        body, texts: MessagePack, each behind its format version; `texts` is None once they were erased.
        salt: random; None once the texts were erased.
        texts_digest: of salt and texts; None while they are there, because it follows from them.
        link: names the fact; see `chain`.
        erased_under: id of the marker under which the texts were erased; None while they are there.
    """

    turn_id: TurnId
    by: InstanceId
    at: datetime
    body: bytes
    texts: bytes | None
    salt: bytes | None
    texts_digest: bytes | None
    link: bytes
    erased_under: str | None = None


class Fact(msgspec.Struct, frozen=True):
    """One fact as it is appended.

    Attributes:
        links: of the facts that it follows; see `chain`. Part of the link, and never stored.
    """

    draft: Draft
    stored: Stored
    links: tuple[bytes, ...]

    @property
    def link(self) -> bytes:
        """What names it."""
        return self.stored.link
