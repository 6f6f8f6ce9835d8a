"""The state of a turn after its facts, from their bodies alone, as the writer of the journal needs it.

The writer keeps this state for recent turns, so that it can decide on an append without reading the turn again. The
name of the file means: what is recorded now. Readers of whole turns need more (`turn_state.py`).
"""

from collections.abc import Iterable
from datetime import UTC, date
from typing import Final

from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import TurnIndex
from sidecar.core.journal.encoding import UnreadableFact, body_of
from sidecar.core.journal.entries import Draft, Fact, Stored
from sidecar.core.journal.facts import CallsSettled, DispatchOpened, TurnEnded
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.opening.claims import BareClaims
from sidecar.core.journal.refusals import JournalCorrupt
from sidecar.core.journal.rules import after
from sidecar.core.journal.texts import Texts

NO_TEXTS: Final = Texts()


class RecordedState:
    """A turn, fact by fact.

    Attributes:
        head: the state that the rules need.
        day: of the first fact; None before it.
        index: the indexed values of the turn; None before the first fact.
        salts: of its facts, which identify repeated drafts; without erased ones.
    """

    def __init__(self, turn_id: TurnId) -> None:
        """Begin before the first fact."""
        self.turn_id = turn_id
        self.head = TurnHead()
        self.day: date | None = None
        self.index: TurnIndex | None = None
        self.salts: set[bytes] = set()
        self._called = False

    def stand(self, facts: Iterable[Stored]) -> None:
        """Add recorded facts. Raises `UnreadableFact`."""
        for stored in facts:
            body = body_of(stored)
            # The texts are not decoded: no rule and no indexed value needs them, and they are most of the bytes.
            draft = Draft(stored.turn_id, stored.by, stored.at, body, NO_TEXTS, stored.salt or b"")
            fact = Fact(draft, stored, links_of(self.head, body))
            try:
                self.move(fact, after(self.head, fact))
            except (JournalCorrupt, LookupError, ValueError) as error:
                raise self.misfit(error) from None

    def misfit(self, error: Exception) -> UnreadableFact:
        """Return the error for a recorded fact that cannot follow the facts before it."""
        return UnreadableFact(
            f"fact {self.head.version + 1} of turn {self.turn_id} does not fit the facts before it: {error}"
        )

    def move(self, fact: Fact, head: TurnHead) -> None:
        """Add an accepted fact, with the resulting `head`."""
        draft, self.head = fact.draft, head
        if draft.salt:
            # With the salts a repeated draft is recognised before any rule is applied: after a lost answer, the same
            # append must succeed even if its dispatch has another owner by now.
            self.salts.add(draft.salt)
        if self.day is None:
            # The partition of the turn: all its facts stay together, also those of a later day.
            self.day = draft.at.astimezone(UTC).date()
        body = draft.body
        if isinstance(body, CallsSettled):
            for each in body.calls if not self._called else ():
                # A call of an unknown tool has neither child nor slot; a turn with only such calls used no sub-agent.
                self._called = self._called or each.ran or each.slot is not None
        elif isinstance(body, DispatchOpened | TurnEnded):
            if body.claims is not None:
                self._bind(body.claims)
            if isinstance(body, TurnEnded) and self.index is not None:
                # The end names the calls that its sidecar knew. Without any, the routing decision called no sub-agent.
                called = self._called and bool(body.routing.calls)
                self.index = TurnIndex(self.index.episode_id, self.index.expires_at, draft.at, called)

    def _bind(self, claims: BareClaims) -> None:
        before = self.index
        if before is None:
            self.index = TurnIndex(claims.episode_id, claims.expires_at)
        # A turn may be bound again with other claims. The earlier expiry counts.
        elif claims.expires_at < before.expires_at:
            self.index = TurnIndex(before.episode_id, claims.expires_at)
