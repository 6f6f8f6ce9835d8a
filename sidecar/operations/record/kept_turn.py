"""A turn as its writer keeps it: where it stands, and which drafts are on record already."""

from collections.abc import Callable, Iterable, Sequence

from sidecar.core.executing.records import Record
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.encoding import fact_of
from sidecar.core.journal.entries import Draft, Fact, Stored
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.refusals import Refused
from sidecar.core.journal.rules import decide
from sidecar.core.journal.standing import Standing
from sidecar.operations.record.translation import NewFacts, TranslatedTurn

Entry = Draft | Record
"""What a group is made of: drafts only, or records only."""


NOTHING = NewFacts()


class KeptTurn:
    """A turn after all facts that were taken: `standing`. A draft whose salt is on record adds nothing."""

    def __init__(self, turn_id: TurnId, facts: Iterable[Stored] = ()) -> None:
        """Begin with the facts that are on record. Raises `UnreadableFact`."""
        self.standing = Standing(turn_id)
        self._facts = list(facts)
        self.standing.stand(self._facts)
        self._translated: TranslatedTurn | None = None

    def take(self, group: Sequence[Entry], by: InstanceId, salt: Callable[[], bytes]) -> NewFacts | str:
        """Take a group, and return what it adds; or return why it is refused, and change nothing.

        Args:
            group: of this turn.
            by: the sidecar that appends it.
            salt: returns bytes for each fact that records are translated into.
        """
        new, drafts = list[tuple[Fact, TurnHead]](), list[Draft]()
        head, salts = self.standing.head, self.standing.salts
        for draft in group:
            if not isinstance(draft, Draft):
                return self._translate(group, by, salt)
            if draft.salt in salts:
                continue
            fact = fact_of(draft, links_of(head, draft.body))
            verdict = decide(head, (fact,), ())
            if isinstance(verdict, Refused):
                return verdict.text
            head = verdict.head
            new.append((fact, head))
            drafts.append(draft)
        if not new:
            return NOTHING
        for fact, after in new:
            self.standing.move(fact, after)
            self._facts.append(fact.stored)
        frames = tuple([row for draft in drafts for row in draft.frames])
        return NewFacts(tuple([fact.stored for fact, _ in new]), frames)

    def _translate(self, group: Sequence[Entry], by: InstanceId, salt: Callable[[], bytes]) -> NewFacts | str:
        if self._translated is None:
            self._translated = TranslatedTurn(self.standing.turn_id)
        self._translated.read(self._facts[self._translated.state.head.version :])
        taken = self._translated.take([each for each in group if not isinstance(each, Draft)], by, salt)
        if isinstance(taken, str):
            return taken
        self.standing.stand(taken.facts)
        self._facts += taken.facts
        return taken
