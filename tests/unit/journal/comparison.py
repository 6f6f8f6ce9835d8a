"""The rules of the journal beside today's: the same facts by three sidecars, to the rules and to the record in memory.

Each sidecar has its own view of the turn, which may be behind, or hold facts that were never appended. A fact is made
from that view, and so are the records that it stands for.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from sidecar.core.errors import RecordConflict
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import ChildOpened
from sidecar.core.identifiers import TurnId
from sidecar.core.journal import rules
from sidecar.core.journal.entries import Fact
from sidecar.core.journal.facts import (
    CallsCancelled,
    ChildrenOpened,
    DispatchOpened,
)
from sidecar.core.journal.heads import TurnHead, links_of, progress_of
from sidecar.core.journal.refusals import Reason
from sidecar.core.journal.turn_projection import TurnProjection
from tests.support.journal_drafts import (
    a_draft,
    salted_fact,
)
from tests.support.model_record import RecordInMemory
from tests.unit.journal.drawn_facts import BODIES, SIDECARS, TURN, Made, View

TODAYS: Final = frozenset(
    {
        Reason.ON_RECORD,
        Reason.UNKNOWN_DISPATCH,
        Reason.NOT_OWNER,
        Reason.NOT_NEXT_EPOCH,
        Reason.STEP_TAKEN,
        Reason.UNKNOWN_CHILD,
        Reason.CHILD_CLOSED,
        Reason.NOT_FOLLOWING,
        Reason.OPEN_CHILDREN,
    }
)
"""Reasons for which the record in memory refuses, too; the others are new. `TURN_ENDED` is both."""


class Disagreement(AssertionError):
    """The rules and the record in memory differ."""


class Comparison:
    """One turn under both rules.

    Args:
        decide: the rules that are compared.
    """

    def __init__(self, decide: Callable[..., Any] = rules.decide) -> None:
        """Begin with an empty record and three sidecars that know nothing."""
        self._decide = decide
        self.views = [View(name) for name in SIDECARS]
        self.head: Any = TurnHead()
        self.facts: list[Fact] = []
        self.model = RecordInMemory()
        self.verdicts: list[str] = []
        self._appended: list[list[Made]] = []
        self._numbers = itertools.count(1)

    # --- what sidecars do

    def make(self, who: int, kind: str, a: int, b: int) -> None:
        """Let a sidecar make a fact of its view; `a` and `b` choose what it is about."""
        view = self.views[who]
        found = BODIES[kind](view, a, b, next(self._numbers))
        if found is None:
            return
        body, texts = found
        draft = a_draft(TURN, view.name, 10_000 * next(self._numbers), body, texts)
        fact = salted_fact(draft, next(self._numbers).to_bytes(16, "big"), links_of(view.head, body))
        try:
            records = view.reading().take(draft)
        except (LookupError, ValueError):
            return  # its view does not even say what that would be
        view.pending.append(Made(fact, records))
        view.take(fact)

    def lose(self, who: int) -> None:
        """Let what a sidecar has made never arrive; it believes otherwise."""
        self.views[who].pending.clear()

    def look(self, who: int) -> None:
        """Let a sidecar read the turn from the record."""
        view = self.views[who]
        view.facts, view.head = [], TurnHead()
        for fact in self.facts:
            view.take(fact)
        view.pending.clear()

    def append(self, who: int, times: int = 1) -> None:
        """Append what a sidecar has made, as one group that holds it once or more often."""
        group, self.views[who].pending = self.views[who].pending, []
        if group:
            self._appended.append(group)
            self._append(group * times)

    def append_again(self, which: int, from_: int = 0) -> None:
        """Append an earlier group again, or the end of it and its beginning, by the sidecar that made it."""
        if self._appended:
            group = self._appended[which % len(self._appended)]
            self._append([*group[from_ % len(group) :], *group[: from_ // 2]])

    # --- both rules

    def _append(self, group: Sequence[Made]) -> None:
        known = {fact.link for fact in self.facts}
        decided = self._decide(self.head, [made.fact for made in group], known)
        accepted = hasattr(decided, "head")
        self.verdicts.append("accepted" if accepted else decided.reason)
        if accepted:
            self.head = decided.head
            self.facts += decided.new
            if not self._model_takes(group):
                raise Disagreement(f"accepted, and refused today: {[made.fact.draft.body for made in group]}")
        elif self._is_todays(group, decided.fact, decided.reason) and self._model_takes(group):
            raise Disagreement(f"refused ({decided.reason}), and accepted today: {decided.fact.draft.body}")

    def _is_todays(self, group: Sequence[Made], fact: Fact, reason: Reason) -> bool:
        """Say whether the record in memory has to refuse a group for this reason, too."""
        body = fact.draft.body
        if reason is Reason.NOT_FOLLOWING and self._events_follow(group, fact):
            return False  # what came between has no event
        if isinstance(body, CallsCancelled):
            return False  # it has no such record
        if reason is Reason.TURN_ENDED:
            return isinstance(body, DispatchOpened | ChildrenOpened)
        before = list(itertools.takewhile(lambda each: each is not fact, (made.fact for made in group)))
        children = self._decide(self.head, before, {each.link for each in self.facts}).head.children
        there = [children[each.step] for each in progress_of(body) if each.step in children]
        if any(child.dispatch_id != getattr(body, "dispatch_id", child.dispatch_id) for child in there):
            return False  # an event of today does not name a dispatch
        return reason in TODAYS

    def _events_follow(self, group: Sequence[Made], fact: Fact) -> bool:
        """Say whether the events that a refused fact stands for follow those that are on record."""
        reading = TurnProjection(TurnId(TURN))
        for each in self.facts:
            reading.take(each.draft)
        links = {child.opened.child_id: child.link for child in reading.children.values()}
        for made in group:
            for event in made.records:
                if isinstance(event, ChildOpened):
                    links[event.child_id] = event.link
                elif isinstance(event, ChildEvent):
                    if links.get(event.child_id) != event.previous_link:
                        return False
                    links[event.child_id] = event.link
            if made.fact is fact:
                break
        return True

    def _model_takes(self, group: Sequence[Made]) -> bool:
        records = [record for made in group for record in made.records]
        try:
            self.model.append(records, group[0].fact.draft.by)
        except RecordConflict:
            return False
        return True

    def compare_contents(self) -> None:
        """Compare what is on record, and where it leaves the turn."""
        reading = TurnProjection(TurnId(TURN))
        derived = [record for fact in self.facts for record in reading.take(fact.draft)]
        ours = {record.record_id: record for record in derived}
        if ours != dict(self.model.records) or len(ours) != len(derived):
            raise Disagreement(f"other records: {ours.keys() ^ self.model.records.keys()}")
        kept = self.model.turns.get(TurnId(TURN))
        if kept is None:
            return
        head: TurnHead = self.head
        owners = {each: (dispatch.owner, dispatch.epoch) for each, dispatch in kept.dispatches.items()}
        if owners != {each: (dispatch.owner, dispatch.epoch) for each, dispatch in head.dispatches.items()}:
            raise Disagreement("other owners")
        if head.ended != (kept.ended is not None) or head.version != len(self.facts):
            raise Disagreement("another end, or version")
        if {child.opened.child_id for child in kept.children.values() if not child.closed} != {
            child.child_id for child in head.open_children.values()
        }:
            raise Disagreement("other open children")
        for each, dispatch in kept.dispatches.items():
            if dispatch.opened.calls - len(list(dispatch.outcomes())) != head.dispatches[each].unsettled:
                raise Disagreement("other calls without an outcome")
