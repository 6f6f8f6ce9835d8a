"""The writer's view of a turn: its state, and the drafts that are already recorded."""

from collections.abc import Iterable, Sequence

import msgspec

from sidecar.core.identifiers import TurnId
from sidecar.core.journal.encoding import fact_of
from sidecar.core.journal.entries import AttemptFrames, Draft, Fact, Stored
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.refusals import FactRejected, JournalCorrupt
from sidecar.core.journal.rules import after
from sidecar.core.journal.standing import RecordedState


class NewFacts(msgspec.Struct, frozen=True):
    """The facts that a group adds to a turn."""

    facts: tuple[Stored, ...] = ()
    frames: tuple[AttemptFrames, ...] = ()


NOTHING = NewFacts()


class KeptTurn:
    """A turn after all facts that were taken: `standing`. A draft whose salt is on record adds nothing."""

    def __init__(self, turn_id: TurnId, facts: Iterable[Stored] = ()) -> None:
        """Begin with the facts that are on record. Raises `UnreadableFact`."""
        self.standing = RecordedState(turn_id)
        self.standing.stand(facts)

    def take(self, group: Sequence[Draft]) -> NewFacts | str:
        """Decide a group of drafts; return the new facts, or why it is refused, which changes nothing."""
        new, frames = list[tuple[Fact, TurnHead]](), list[AttemptFrames]()
        head, salts = self.standing.head, self.standing.salts
        for draft in group:
            if draft.salt in salts:
                continue
            fact = fact_of(draft, links_of(head, draft.body))
            try:
                head = after(head, fact)
            except JournalCorrupt as broken:
                return FactRejected(fact, broken.reason, broken.about).text
            new.append((fact, head))
            if draft.frames:
                frames += draft.frames
        if not new:
            return NOTHING
        for fact, stands in new:
            self.standing.move(fact, stands)
        return NewFacts(tuple([fact.stored for fact, _ in new]), tuple(frames))
