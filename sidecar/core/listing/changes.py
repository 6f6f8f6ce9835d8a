"""The watermarks of lists in the journal, and the changes after them."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from sidecar.core.identifiers import TurnId
from sidecar.core.journal.entries import Stored


class ReadPosition(Struct, frozen=True):
    """A place in a sequence of facts.

    Attributes:
        number: of a fact in its sequence, from 1.
        link: of that fact, so that another journal is noticed.
    """

    number: int
    link: bytes


class Watermarks(Struct, frozen=True):
    """Up to where everything is in the lists.

    Attributes:
        reached: by sequence, of which a journal has one or more; one that is not named was not begun.
        alterations: changes with every removal and erasure; of those that are taken into account.
        generation: how often everything was forgotten, where several processes project.
    """

    reached: Mapping[str, ReadPosition] = field(default_factory=dict)
    alterations: int = 0
    generation: int = 0


class ChangedTurn(Struct, frozen=True):
    """A turn that has facts after a place, with those of them up to another one.

    Attributes:
        first: place of the first of these facts in the turn, from 1; the others follow it without a gap.
    """

    turn_id: TurnId
    first: int
    facts: tuple[Stored, ...]

    @property
    def version(self) -> int:
        """How many facts the turn has with them."""
        return self.first - 1 + len(self.facts)


class Changes(Struct, frozen=True):
    """The changes after some watermarks, read in one snapshot.

    Attributes:
        turns: each once; a turn that changes again behind `reached` may be left out, it comes later.
        reached: the watermarks behind them; `alterations` are those of the journal.
        behind: facts that come after `reached`.
        as_of: what was appended before this time is before `reached`; None if nothing is behind.
    """

    turns: tuple[ChangedTurn, ...]
    reached: Watermarks
    behind: int
    as_of: datetime | None = None
