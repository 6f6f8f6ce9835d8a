"""The stages of a fact: drafted, linked, stored.

An operation drafts a fact, the journal links it to the fact before it in its turn, and the store confirms it.
"""

from datetime import datetime

import msgspec

from sidecar.core.identifiers import AttemptId, InstanceId, TurnId
from sidecar.core.journal.facts import Body
from sidecar.core.journal.texts import Texts


class AttemptFrames(msgspec.Struct, frozen=True):
    """The frames that a runner sent in one attempt: a separate row beside the facts, see `attempt_frames`.

    Attributes:
        step: of its child.
        number: of the attempt; 0 if none was made.
        frames: the result of `attempt_frames.packed`.
    """

    turn_id: TurnId
    attempt_id: AttemptId
    step: int
    number: int
    frames: bytes


class Draft(msgspec.Struct, frozen=True):
    """A fact before it is linked.

    Its salt identifies it: after a commit with an unknown result, appending the same draft again adds nothing.

    Attributes:
        by: the sidecar that appends it.
        at: when it was created; aware, in UTC.
        salt: `SALT_BYTES` random bytes, unique to this fact; empty if they were erased.
        frames: rows that are stored with it.
    """

    turn_id: TurnId
    by: InstanceId
    at: datetime
    body: Body
    texts: Texts
    # Identifies the draft, and keeps erased texts from being guessed by their digest. Erased together with them.
    salt: bytes = b""
    # Beside the fact and not part of its link: retention removes frames before facts.
    frames: tuple[AttemptFrames, ...] = ()


class Stored(msgspec.Struct, frozen=True):
    """The stored form of a fact, without its position in the journal.

    Attributes:
        body, texts: MessagePack, each after its format version; `texts` is None once they were erased.
        salt: random; None once the texts were erased.
        texts_digest: of salt and texts, once they were erased; before, it can be computed from them.
        link: identifies the fact; see `chain`.
        erased_under: id of the marker of the erasure; None while the texts exist.
    """

    turn_id: TurnId
    by: InstanceId
    at: datetime
    body: bytes
    texts: bytes | None
    salt: bytes | None
    texts_digest: bytes | None
    link: bytes
    # Not covered by the link, which must not change in an erasure; verification compares it with the signed markers.
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
        """The identity of the fact."""
        return self.stored.link
