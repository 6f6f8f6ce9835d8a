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
    """A turn after all accepted facts: `standing`. A draft whose salt is recorded adds no fact."""

    def __init__(self, turn_id: TurnId, facts: Iterable[Stored] = ()) -> None:
        """Begin with the recorded facts. Raises `UnreadableFact`."""
        self.standing = RecordedState(turn_id)
        self.standing.stand(facts)

    def take(self, group: Sequence[Draft]) -> NewFacts | str:
        """Decide a group of drafts. Return the new facts, or the reason for a refusal, which changes nothing."""
        new, frames = list[tuple[Fact, TurnHead]](), list[AttemptFrames]()
        head, salts = self.standing.head, self.standing.salts
        for draft in group:
            if draft.salt in salts:
                continue  # repeated by its caller after an append whose answer was lost
            # After the check above, which ignores ownership: a repeated draft is recorded already, even if its dispatch
            # has another owner by now. Refusing it would tell the caller that a recorded fact is not recorded.
            fact = fact_of(draft, links_of(head, draft.body))
            try:
                # On a local name: the state of the turn must not change if a later draft of the group is refused.
                head = after(head, fact)
            except JournalCorrupt as broken:
                return FactRejected(fact, broken.reason, broken.about).text
            new.append((fact, head))
            if draft.frames:
                frames += draft.frames
        if not new:
            return NOTHING
        # Only now, after all drafts of the group are accepted: a group is recorded whole or not at all.
        for fact, state in new:
            self.standing.move(fact, state)
        return NewFacts(tuple([fact.stored for fact, _ in new]), tuple(frames))
