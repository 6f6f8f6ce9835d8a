"""Facts as a sidecar makes them from what it knows of a turn, right or wrong: numbers choose what they are about."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sidecar.core.executing.records import Record
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import ChildId, DispatchId, TurnId
from sidecar.core.journal import rules
from sidecar.core.journal.entries import Fact
from sidecar.core.journal.facts import (
    AttemptRepeated,
    Body,
    CallsCancelled,
    ChildClosed,
    ChildNoted,
    DelegationSettled,
    Progress,
    TurnEnded,
)
from sidecar.core.journal.heads import ChildHead, TurnHead
from sidecar.core.journal.marks import Values, What
from sidecar.core.journal.texts import Texts
from sidecar.core.journal.turn_projection import TurnProjection
from tests.support.journal_drafts import (
    a_later_child,
    a_request,
    a_settlement,
    a_settling,
    a_start,
    a_taking,
    an_end,
    an_opening,
    progress,
    some_claims,
    values_of,
)

TURN: Final = "turn-1"
SIDECARS: Final = ("one", "two", "three")
DISPATCHES: Final = ("dispatch-1", "dispatch-2")
KINDS: Final = (
    "open",
    "later",
    "delegate",
    "note",
    "repeat",
    "cancel",
    "settle",
    "revise",
    "unstarted",
    "delegated",
    "close",
    "take",
)
OFTEN: Final = (*KINDS * 2, *("open", "later", "delegate", "settle", "settle", "note", "take") * 2, "end")
"""Kinds, as often as they are to come: a turn that has ended takes nothing any more."""


@dataclass(slots=True)
class Made:
    """A fact, and the records that it stands for in the view of its maker."""

    fact: Fact
    records: list[Record]


@dataclass(slots=True)
class View:
    """What one sidecar knows: the facts that it takes to be on record, and what it has not appended yet."""

    name: str
    facts: list[Fact] = field(default_factory=list)
    head: TurnHead = field(default_factory=TurnHead)
    pending: list[Made] = field(default_factory=list)

    def reading(self) -> TurnProjection:
        """Return the turn as it is known here."""
        reading = TurnProjection(TurnId(TURN))
        for fact in self.facts:
            reading.take(fact.draft)
        return reading

    def take(self, fact: Fact) -> None:
        """Believe that a fact is on record, if it could be."""
        decided = rules.decide(self.head, [fact], {each.link for each in self.facts})
        if isinstance(decided, rules.Accepted) and decided.new:
            self.facts.append(fact)
            self.head = decided.head


Found = tuple[Body, Texts] | None


def _slot(number: int) -> str:
    return ("shop", "rewards")[number % 2]


def _open(view: View, a: int, b: int, number: int) -> Found:
    request = a_request(DISPATCHES[a % 2], [_slot(place) for place in range(1 + b % 3)])
    first = view.head.next_step if a < 6 else b % 4
    claims = None if view.head.bound and b < 6 else some_claims(TURN)
    starting = [place for place in range(1 + b % 3) if (a >> 1) + place & 1] if a % 3 else []
    body, texts = an_opening(request, claims, first, starting)
    if number % 2:  # children have other ids each time
        replace = msgspec.structs.replace
        children = (replace(start, child_id=ChildId(f"child-{number}-{start.step}")) for start in body.children)
        body = replace(body, children=tuple(children))
    return body, texts


def _later(view: View, a: int, b: int, number: int) -> Found:
    dispatch = view.head.dispatches.get(DispatchId(DISPATCHES[a % 2]))
    if dispatch is None:
        return None
    child_id = f"child-{number}" if b < 8 else _any(view, a).child_id if view.head.children else f"child-{number}"
    step = dispatch.first_step + b % max(1, dispatch.calls + (a > 7))
    return a_later_child(DISPATCHES[a % 2], a_start(child_id, _slot(step), step))


def _any(view: View, a: int) -> ChildHead:
    children = list(view.head.children.values())
    return children[a % len(children)]


def _step(view: View, a: int) -> int:
    steps = list(view.head.children)
    return steps[a % len(steps)] if steps else a % 4


def _dispatch_of(view: View, step: int, b: int) -> DispatchId:
    child = view.head.children.get(step)
    return DispatchId(DISPATCHES[b % 2]) if child is None or b == 9 else child.dispatch_id


def _delegate(view: View, a: int, b: int, number: int) -> Found:
    parent = _step(view, a)
    step = view.head.next_step if b < 7 else b % 4
    told = Progress(parent, progress(parent, What.DELEGATED).marks, _attempts(view, parent))
    body, texts = a_later_child(
        _dispatch_of(view, parent, b), a_start(f"child-{number}", _slot(step), step, parent), [told]
    )
    return body, Texts(contracts=texts.contracts, values=((),))


def _attempts(view: View, step: int) -> int:
    child = view.head.children.get(step)
    return 0 if child is None else child.attempts


def _note(view: View, a: int, b: int, number: int) -> Found:
    step = _step(view, a)
    whats = [(What.TOOL_REFUSED,), (What.DATA_WITHHELD, What.TAKEN_OVER), (What.ATTEMPT,)][b % 3]
    attempts = max(_attempts(view, step), What.ATTEMPT in whats)
    told = progress(step, *whats, attempts=attempts)
    return ChildNoted(_dispatch_of(view, step, b), (told,)), Texts(values=values_of(*whats))


def _repeat(view: View, a: int, b: int, number: int) -> Found:
    step = _step(view, a)
    made = max(1, _attempts(view, step)) + (b != 8)
    told = progress(step, What.REPEATED, What.ATTEMPT, attempts=made)
    values = (*values_of(What.REPEATED), (made, f"attempt-{number}"))
    return AttemptRepeated(_dispatch_of(view, step, b), (told,)), Texts(values=values)


def _cancel(view: View, a: int, b: int, number: int) -> Found:
    return CallsCancelled(DispatchId(DISPATCHES[a % 2]), (b % 4,)), Texts()


def _settle(view: View, a: int, b: int, number: int) -> Found:
    step = _step(view, a)
    dispatch_id = _dispatch_of(view, step, b)
    dispatch = view.head.dispatches.get(dispatch_id)
    place = None if dispatch is None else dispatch.place_of(step)
    whats = (What.WAITING,) if b % 2 else (What.FAILED,)
    calls = [] if place is None else [a_settlement(place, revision=int(b > 7))]
    return a_settling(dispatch_id, calls, whats, [step], max(1, _attempts(view, step)))


def _revise(view: View, a: int, b: int, number: int) -> Found:
    step = _step(view, a)
    dispatch_id = _dispatch_of(view, step, b)
    dispatch = view.head.dispatches.get(dispatch_id)
    place = b % 3 if dispatch is None else dispatch.place_of(step)
    return None if place is None else a_settling(dispatch_id, [a_settlement(place, revision=1)])


def _unstarted(view: View, a: int, b: int, number: int) -> Found:
    return a_settling(DISPATCHES[a % 2], [a_settlement(b % 3, ran=False, revision=int(b > 7))])


def _delegation_settled(view: View, a: int, b: int, number: int) -> Found:
    step = next((each for each, child in view.head.children.items() if child.delegated and child.is_open), a % 5)
    whats = (What.WAITING, What.ACCEPTED, What.CLOSED) if b % 2 else (What.FAILED, What.CLOSED)
    values = (("succeeded", 0, False), (), ("integrated",)) if b % 2 else values_of(*whats)
    told = progress(step, *whats, attempts=max(1, _attempts(view, step)))
    return DelegationSettled(_dispatch_of(view, step, b), (told,)), Texts(values=values)


ENDINGS: Final = {
    ExecutionState.RUNNING: (What.FAILED, What.CLOSED),
    ExecutionState.WAITING_FOR_MERGE: (What.ACCEPTED, What.CLOSED),
    ExecutionState.FAILED: (What.CLOSED,),
}


def _close(view: View, a: int, b: int, number: int) -> Found:
    step = _step(view, a)
    child = view.head.children.get(step)
    whats = ENDINGS.get(child.state, (What.CLOSED,)) if child is not None else (What.CLOSED,)
    told = progress(step, *whats, attempts=_attempts(view, step))
    return ChildClosed(_dispatch_of(view, step, b), (told,)), Texts(values=values_of(*whats))


def _take(view: View, a: int, b: int, number: int) -> Found:
    dispatch = view.head.dispatches.get(DispatchId(DISPATCHES[a % 2]))
    epoch = 0 if dispatch is None else dispatch.epoch
    return a_taking(DISPATCHES[a % 2], epoch + (1 if b < 8 else 2 * (b - 8)))


def _end(view: View, a: int, b: int, number: int) -> Found:
    body, texts = an_end(None if view.head.bound else some_claims(TURN))
    told: list[Progress] = []
    values: list[Values] = []
    for step, child in view.head.open_children.items():
        if a == 0 and not told:
            continue  # one is left open
        whats = ENDINGS[child.state]
        told.append(progress(step, *whats, attempts=child.attempts))
        values += values_of(*whats)
    body = TurnEnded(body.claims, body.close_reason, body.routing, tuple(told))
    return body, Texts(user=texts.user, values=tuple(values), end=texts.end)


BODIES: Final[dict[str, Callable[[View, int, int, int], Found]]] = {
    "open": _open,
    "later": _later,
    "delegate": _delegate,
    "note": _note,
    "repeat": _repeat,
    "cancel": _cancel,
    "settle": _settle,
    "revise": _revise,
    "unstarted": _unstarted,
    "delegated": _delegation_settled,
    "close": _close,
    "take": _take,
    "end": _end,
}
