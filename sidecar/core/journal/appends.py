"""The facts that a database must store for a turn, and its information about the journal.

`operations/record` passes linked facts to an adapter, which stores facts and turn index in one transaction.
"""

from datetime import date, datetime

import msgspec

from sidecar.core.identifiers import EpisodeId, InstanceId, TurnId
from sidecar.core.journal.entries import AttemptFrames, Stored
from sidecar.core.journal.heads import TurnHead


class TurnIndex(msgspec.Struct, frozen=True):
    """The indexed values of a turn; all of them follow from its facts.

    Attributes:
        episode_id: from its first fact.
        expires_at: a turn that has not ended by then is closed, because its parent is considered lost.
        ended_at: None while it is open.
        called: it has ended, and called a sub-agent.
    """

    episode_id: EpisodeId
    expires_at: datetime
    ended_at: datetime | None = None
    called: bool = False


class TurnAppend(msgspec.Struct, frozen=True):
    """Facts of one turn that were decided together. A database writes all of them or none.

    Attributes:
        day: of the turn's first fact, in UTC; the partition of all its facts.
        before: version of the head that the decision was based on; if the turn has another one, nothing is stored.
        head: the state of the turn with these facts.
        index: the new index; None if it does not change.
    """

    turn_id: TurnId
    day: date
    before: int
    head: TurnHead
    index: TurnIndex | None
    facts: tuple[Stored, ...]
    frames: tuple[AttemptFrames, ...] = ()


class TurnFacts(msgspec.Struct, frozen=True):
    """The facts of a turn, read in one snapshot.

    Attributes:
        facts: all facts, in the order of their versions.
        living: the instances in them that may be alive.
        versions: of the stored facts; empty if unknown. They are 1, 2, 3 and so on, unless the record was tampered
            with. This field and the following ones are for verification.
        day, index: as stored beside the facts; None if unknown.
    """

    facts: tuple[Stored, ...]
    living: frozenset[InstanceId]
    versions: tuple[int, ...] = ()
    day: date | None = None
    index: TurnIndex | None = None


class RootState(msgspec.Struct, frozen=True):
    """The running root over the facts that an instance appended to turns of one day.

    Attributes:
        number: number of these facts.
        root: over their links, in the order of the journal; 64 hex digits.
    """

    instance: InstanceId
    day: date
    number: int
    root: str
