"""The watermarks of lists in the journal, and the changes after them.

Lists are derived from the journal. The projector stores the watermarks up to which it has derived them, and asks for
the changes after these.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from sidecar.core.identifiers import TurnId
from sidecar.core.journal.entries import Stored


class ReadPosition(Struct, frozen=True):
    """A position in a sequence of facts.

    Attributes:
        number: of a fact in its sequence, from 1.
        link: of that fact, which reveals a different journal.
    """

    number: int
    # Restored backups reuse numbers, so a number alone does not identify a fact.
    link: bytes


class Watermarks(Struct, frozen=True):
    """The positions up to which the lists are complete.

    Attributes:
        reached: by sequence; a journal has one or more. A sequence that is missing has not begun.
        alterations: number of removals and erasures that are already applied.
        generation: how often all rows were removed; rows that were derived before a removal are not written after it.
            Counted only by databases to which several processes write.
    """

    reached: Mapping[str, ReadPosition] = field(default_factory=dict)
    alterations: int = 0
    generation: int = 0


class ChangedTurn(Struct, frozen=True):
    """A turn that has facts after a position, with those of them up to another position.

    Attributes:
        first: position of the first of these facts in the turn, from 1; the others follow without a gap.
    """

    turn_id: TurnId
    first: int
    facts: tuple[Stored, ...]

    @property
    def version(self) -> int:
        """The number of facts of the turn, including these."""
        return self.first - 1 + len(self.facts)


class Changes(Struct, frozen=True):
    """The changes after some watermarks, read in one snapshot.

    Attributes:
        turns: each once; a turn that changes again after `reached` may be omitted, because it follows later.
        reached: the watermarks after these changes; `alterations` are those of the journal.
        behind: number of facts after `reached`.
        as_of: facts that were appended before this time are before `reached`; None if there are none behind.
    """

    turns: tuple[ChangedTurn, ...]
    reached: Watermarks
    behind: int
    as_of: datetime | None = None
