"""One turn after its facts, for readers: the state that the rules need, and the records derived from the facts.

All readers of a whole turn use this: a restore, the operators' views, a replay. `standing` is the smaller state
for the writer.
"""

from collections.abc import Iterable, Set

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.records import Record, TurnEnded
from sidecar.core.executing.stored_record import StoredDispatch, StoredTurn
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.encoding import draft_of
from sidecar.core.journal.entries import Fact, Stored
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.refusals import JournalCorrupt
from sidecar.core.journal.rules import after
from sidecar.core.journal.standing import RecordedState
from sidecar.core.journal.turn_projection import TurnProjection


class TurnState(RecordedState):
    """A turn with all values that follow from its facts. The enum of the same name in `stored_record` is for lists.

    Attributes:
        reading: derives the records.
        ended, routing: None while the turn is open.
    """

    def __init__(self, turn_id: TurnId) -> None:
        """Begin before the first fact."""
        super().__init__(turn_id)
        self.reading = TurnProjection(turn_id)
        self.ended: TurnEnded | None = None
        self.routing: RoutingRecord | None = None

    def read(self, facts: Iterable[Stored]) -> list[Record]:
        """Add recorded facts; return their records. Raises `UnreadableFact`."""
        records: list[Record] = []
        for stored in facts:
            draft = draft_of(stored)
            # Stored facts pass the same rules as new ones. A record that was changed by hand is refused instead of
            # being read as something else.
            fact = Fact(draft, stored, links_of(self.head, draft.body))
            try:
                records += self.take(fact, after(self.head, fact))
            except (JournalCorrupt, LookupError, ValueError) as error:
                raise self.misfit(error) from None
        return records

    def take(self, fact: Fact, head: TurnHead) -> list[Record]:
        """Add an accepted fact, after which the state of the turn is `head`; return its records."""
        # Before `move`: if no records can be derived, the head still has the version before this fact, and `misfit`
        # names the right one.
        records = self.reading.take(fact.draft)
        self.move(fact, head)
        for record in records:
            if isinstance(record, TurnEnded):
                self.ended = record
            elif isinstance(record, RoutingRecord):
                self.routing = record
        return records

    def stored(self, living: Set[InstanceId]) -> StoredTurn | None:
        """Return the turn in its present state; None before its first fact.

        Args:
            living: instances that may be alive.
        """
        if self.head.version == 0:
            return None
        dispatches = []
        for dispatch_id, dispatch in self.reading.dispatches.items():
            head = self.head.dispatches[dispatch_id]
            outcomes = tuple(each.outcome for each in dispatch.standing())
            # From the head: a cancellation is only a mark on the dispatch and adds no record.
            places = frozenset(place for place in range(head.calls) if head.cancelled >> place & 1)
            alive = head.owner in living
            dispatches.append(StoredDispatch(dispatch.opened, head.owner, head.epoch, alive, outcomes, places))
        children = tuple(each.stored() for each in self.reading.children.values())
        salts, scores = frozenset(self.salts), tuple(self.reading.scores)
        return StoredTurn(self.turn_id, tuple(dispatches), children, self.ended, self.routing, salts, scores)


def state_of(turn_id: TurnId, facts: Iterable[Stored]) -> TurnState:
    """Return a turn after the recorded facts. Raises `UnreadableFact`."""
    state = TurnState(turn_id)
    state.read(facts)
    return state
