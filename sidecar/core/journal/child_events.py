"""Derives the events of a child from the marks of its facts, and finds the mark that an event comes from.

The events are those of `core/executing`: same names, ids, order, details and links.
"""

from collections.abc import Mapping
from copy import copy
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from sidecar.core.dispatching.questions import AnsweredBy, Answerer, Question, QuestionKind
from sidecar.core.executing.chain import event_link
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.events import COMPLETED_STATUS, FAILED_STATUS, ChildEvent
from sidecar.core.executing.records import ChildOpened
from sidecar.core.executing.stored_record import StoredChild
from sidecar.core.identifiers import Digest
from sidecar.core.journal.marks import ACTORS, FORMS, About, Mark, Values, What, details_of

NO_VALUES: Final[Values] = ()
ERASED: Final = "erased"
"""Summary of an event whose values were erased."""
OF_NAME: Final = {form.name: what for what, form in FORMS.items()}
MICROSECOND: Final = timedelta(microseconds=1)


class ChildSoFar:
    """The state of a child after some of its events, as far as later events are derived from it.

    Attributes:
        opened: the row of the child.
        contract: the original contract.
        parent: step of the delegating child.
        attempts: number of the newest attempt in an event.
    """

    def __init__(self, opened: ChildOpened, contract: Contract, parent: int | None) -> None:
        """Begin before the first event."""
        self.opened, self.contract, self.parent = opened, contract, parent
        self.attempts = 0
        self._accepted = False

    def copy(self) -> "ChildSoFar":
        """Return a copy of this state."""
        return copy(self)

    def about(self, settled: Values = (), delegated: Values = ()) -> About:
        """Return the present state for deriving an event. See `About`."""
        return About(
            slot=self.opened.slot,
            step=self.opened.step_idx,
            digest=Digest(self.contract.definition_digest),
            attempt=self.attempts,
            final_status=COMPLETED_STATUS if self._accepted else FAILED_STATUS,
            settled=settled,
            delegated=delegated,
        )

    def note(self, what: What, details: Mapping[str, Any]) -> None:
        """Add one more event."""
        # The number is a value of the event. If it was erased, attempts are counted instead.
        if what is What.ATTEMPT:
            self.attempts = int(details.get("number", self.attempts + 1))
        self._accepted = self._accepted or what is What.ACCEPTED


class ChildReading:
    """The events of one child, derived in the order of the facts; nothing that was derived ever changes.

    Attributes:
        so_far: what the next event is derived from.
        events: the events derived so far.
        question, state: what the child asked, and the state it left for its continuation.
        answered_by: the call that continues its work.
    """

    def __init__(self, so_far: ChildSoFar) -> None:
        """Begin before the first event."""
        self.so_far = so_far
        self.question: Question | None = None
        self.state = b""
        self.answered_by: AnsweredBy | None = None
        self.events: list[ChildEvent] = []
        # The chain of the events begins with the row of the child, so the row cannot be exchanged either.
        self._link = so_far.opened.link

    @property
    def opened(self) -> ChildOpened:
        """The row of the child."""
        return self.so_far.opened

    @property
    def link(self) -> str:
        """Link of the newest event; before the first event, of the row."""
        return self._link

    def take(self, mark: Mark, values: Values | None, at: datetime, about: About) -> ChildEvent:
        """Derive the next event.

        Args:
            mark: of an accepted fact.
            values: of the mark; None if they were erased.
            at: the time of its fact.
            about: the known state of the child.
        """
        form = FORMS[mark.what]
        # Erased values leave what follows from the child itself, e.g. its slot.
        details = form.around(about) if values is None else details_of(form, values, about)
        summary = ERASED if values is None and form.fields else form.summary(details, about)
        # The first of the actors is empty: most events have the usual actor, which is not stored.
        actor = ACTORS[mark.actor] or form.actor
        event = self._event(form.name, at + mark.after * MICROSECOND, actor, summary, details)
        # After the event is derived: an event describes the child before it, e.g. the number of the attempt that
        # failed.
        self.so_far.note(mark.what, details)
        if mark.what is What.SUSPENDED and values is not None:
            self.asks(values)
        self.events.append(event)
        return event

    def asks(self, values: Values) -> None:
        """Set the question; `values` of the mark `SUSPENDED`."""
        # The receipt and the state follow the values that events show (`ASKED`); no event ever shows them.
        kind, text, about_json, answerer, expires_at, receipt, self.state = values
        until = datetime.fromisoformat(expires_at)
        self.question = Question(QuestionKind(kind), text, about_json, Answerer(answerer), until, receipt)

    def stored(self) -> StoredChild:
        """Return the child in its present state."""
        return StoredChild(self.opened, tuple(self.events), self.question, self.state, self.answered_by)

    def _event(self, name: str, at: datetime, actor: str, summary: str, details: dict[str, Any]) -> ChildEvent:
        # Events are numbered by position: facts store no number, and no event is ever removed.
        sequence, child_id = len(self.events) + 1, self.opened.child_id
        # The chain is computed from derived values, so every reader gets the same links without a stored copy.
        details_json, previous = msgspec.json.encode(details).decode(), self._link
        self._link = event_link(previous, (child_id, sequence, name, at, actor, summary, details_json))
        return ChildEvent(
            event_id=f"{child_id}/{sequence}",
            child_id=child_id,
            run_id=self.opened.turn_id,
            sequence=sequence,
            name=name,
            time=at,
            actor=actor,
            summary=summary,
            details_json=details_json,
            previous_link=previous,
            link=self._link,
        )
