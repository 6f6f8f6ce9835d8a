"""Decides which fact may follow which state of a turn, and computes the state after it: `after`.

The writer of a process applies `after` to new facts (`operations/record/kept_turn.py`); readers and verification apply
it to stored facts. Databases compare only the versions of turns.

`docs/journal.md` has a table of the rules.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.journal.chain import chained
from sidecar.core.journal.entries import Fact
from sidecar.core.journal.facts import (
    AttemptRepeated,
    Body,
    CallsCancelled,
    CallsSettled,
    ChildClosed,
    ChildNoted,
    ChildrenOpened,
    DelegationSettled,
    DispatchOpened,
    DispatchTaken,
    QuestionAnswered,
    ScoreRecorded,
    TurnEnded,
)
from sidecar.core.journal.heads import DispatchHead, TurnHead
from sidecar.core.journal.refusals import FactRejected, JournalCorrupt, Reason
from sidecar.core.journal.transitions import (
    CLOSED,
    STILL_RUNNING,
    WORK_OVER,
    child_of,
    dispatch_of,
    owned,
    refuse_finished_call,
    refuse_outdated,
    with_children,
    with_claims,
    with_dispatch,
    with_outcome,
    with_progress,
    with_steps,
)

MOST_SCORES: Final = 128
"""The most scores of a turn. The limit exists because the head of a turn holds their ids."""


class Accepted(msgspec.Struct, frozen=True):
    """The verdict on a group of facts that may be appended.

    Attributes:
        head: the state of the turn with them.
        new: the facts that are not recorded yet, in order.
    """

    head: TurnHead
    new: tuple[Fact, ...]


def decide(head: TurnHead, facts: Iterable[Fact], known: Container[bytes]) -> Accepted | FactRejected:
    """Decide whether one group of facts of one turn may be appended: the whole group, or nothing.

    The writer does the same in `KeptTurn.take`, which recognises known facts by their salts instead of their links.

    Args:
        head: the state of the turn.
        facts: in the order in which they are appended.
        known: links of facts that are already on record, among them all of the group that are. A known fact is
            accepted whichever sidecar appends it and whatever has happened since: only the reply to its first append
            was lost.
    """
    new: dict[bytes, Fact] = {}
    for fact in facts:
        # A link covers turn, sidecar, time, body, texts and salt: an equal link means an equal fact. The check comes
        # before all rules, because a repeated append must succeed even after the dispatch has a new owner or the turn
        # has ended.
        if fact.link in known or fact.link in new:
            continue
        try:
            head = after(head, fact)
        except JournalCorrupt as broken:
            return FactRejected(fact, broken.reason, broken.about)
        new[fact.link] = fact
    return Accepted(head, tuple(new.values()))


def after(head: TurnHead, fact: Fact) -> TurnHead:
    """Return the state of the turn after one more fact. Raises `JournalCorrupt`."""
    body = fact.draft.body
    if head.ended:
        _refuse_after_end(body)
    # Version and chain change here and not in the rules, so that no rule can forget them.
    changed = _RULES[type(body)](head, body, fact)
    return msgspec.structs.replace(changed, version=head.version + 1, chain=chained(head.chain, fact.stored.link))


def _refuse_after_end(body: Body) -> None:
    """Raise `JournalCorrupt` unless a fact may follow the end of a turn: answers to questions and scores may."""
    if not isinstance(body, QuestionAnswered | ScoreRecorded):
        raise JournalCorrupt(Reason.ON_RECORD if isinstance(body, TurnEnded) else Reason.TURN_ENDED)


# --- one rule for each kind of fact


def _dispatch_opened(head: TurnHead, body: DispatchOpened, fact: Fact) -> TurnHead:
    # A repeated append of the same fact was recognised before. This one has the same id and other contents.
    if body.dispatch_id in head.dispatches:
        raise JournalCorrupt(Reason.ON_RECORD, body.dispatch_id)
    refuse_outdated(head, fact)
    calls = len(body.asked.call_ids)
    dispatch = DispatchHead(fact.draft.by, 0, body.first_step, calls, fact.stored.link)
    head = with_children(with_dispatch(with_claims(head, body), body.dispatch_id, dispatch), body, fact)
    # All steps of the dispatch are reserved at once, also those of calls that are dropped or start later. Another
    # sidecar that opens a dispatch of the same turn concurrently then cannot give a child the same number.
    return with_steps(head, ((1 << calls) - 1) << body.first_step)


def _children_opened(head: TurnHead, body: ChildrenOpened, fact: Fact) -> TurnHead:
    dispatch = owned(head, body.dispatch_id, fact)
    for start in body.children:
        # Delegated children are no calls of the dispatch: they have no place that could be over.
        if start.parent is None:
            refuse_finished_call(dispatch, start.step)
    return with_children(with_progress(head, fact, STILL_RUNNING), body, fact)


def _attempt_repeated(head: TurnHead, body: AttemptRepeated, fact: Fact) -> TurnHead:
    dispatch = owned(head, body.dispatch_id, fact)
    for each in body.progress:
        refuse_finished_call(dispatch, each.step)
    return with_progress(head, fact, STILL_RUNNING, repeats=1)


def _child_noted(head: TurnHead, body: ChildNoted, fact: Fact) -> TurnHead:
    owned(head, body.dispatch_id, fact)
    return with_progress(head, fact, STILL_RUNNING)


def _calls_cancelled(head: TurnHead, body: CallsCancelled, fact: Fact) -> TurnHead:
    dispatch = owned(head, body.dispatch_id, fact)
    for place in body.places:
        if not 0 <= place < dispatch.calls:
            raise JournalCorrupt(Reason.UNKNOWN_CALL, f"place {place}")
        # A call that has its outcome cannot be cancelled any more: whichever of both facts is recorded first decides.
        refuse_finished_call(dispatch, dispatch.first_step + place)
        dispatch = msgspec.structs.replace(dispatch, cancelled=dispatch.cancelled | 1 << place)
    refuse_outdated(head, fact)
    return with_dispatch(head, body.dispatch_id, dispatch)


def _calls_settled(head: TurnHead, body: CallsSettled, fact: Fact) -> TurnHead:
    dispatch = owned(head, body.dispatch_id, fact)
    asked = head.asked
    for each in body.calls:
        dispatch = with_outcome(head, body, dispatch, each)
        if each.outcome is Outcome.SUSPENDED and each.ran and not each.revision:
            asked |= 1 << dispatch.first_step + each.place
        elif each.revision:  # the parent got "could not be recorded" instead of the question, so it has no receipt
            asked &= ~(1 << dispatch.first_step + each.place)
    head = with_dispatch(with_progress(head, fact, WORK_OVER), body.dispatch_id, dispatch)
    return head if asked == head.asked else msgspec.structs.replace(head, asked=asked)


def _delegation_settled(head: TurnHead, body: DelegationSettled, fact: Fact) -> TurnHead:
    owned(head, body.dispatch_id, fact)
    for each in body.progress:
        if not child_of(head, each.step, body.dispatch_id).delegated:
            raise JournalCorrupt(Reason.ILLEGAL_STATE, f"step {each.step} was not delegated")
    # Usually closed at once. Work that a dead sidecar left is only failed here; the end of the turn closes it.
    return with_progress(head, fact, WORK_OVER | CLOSED)


def _child_closed(head: TurnHead, body: ChildClosed, fact: Fact) -> TurnHead:
    owned(head, body.dispatch_id, fact)
    return with_progress(head, fact, CLOSED)


def _dispatch_taken(head: TurnHead, body: DispatchTaken, fact: Fact) -> TurnHead:
    dispatch = dispatch_of(head, body.dispatch_id)
    # The epoch is the fencing token: of two sidecars that take over at the same time, one finds its epoch used.
    if body.epoch != dispatch.epoch + 1:
        raise JournalCorrupt(Reason.NOT_NEXT_EPOCH, f"epoch {body.epoch} after {dispatch.epoch}")
    refuse_outdated(head, fact)
    taken = msgspec.structs.replace(dispatch, owner=fact.draft.by, epoch=body.epoch, link=fact.link)
    return with_dispatch(head, body.dispatch_id, taken)


def _question_answered(head: TurnHead, body: QuestionAnswered, fact: Fact) -> TurnHead:
    # There is no check of the owner: the answer may arrive at any sidecar, long after the dispatch has ended.
    child = child_of(head, body.step, body.dispatch_id)
    if not head.asked >> body.step & 1:
        raise JournalCorrupt(Reason.ILLEGAL_STATE, f"{child.child_id} has asked nothing")
    if head.answered >> body.step & 1:
        raise JournalCorrupt(Reason.ON_RECORD, f"the answer to {child.child_id}")
    return msgspec.structs.replace(head, answered=head.answered | 1 << body.step)


def _score_recorded(head: TurnHead, body: ScoreRecorded, fact: Fact) -> TurnHead:
    # Any sidecar may record a score: it changes nothing that the owner of the dispatch decides.
    dispatch = dispatch_of(head, body.dispatch_id)
    if not 0 <= body.place < dispatch.calls:
        raise JournalCorrupt(Reason.UNKNOWN_CALL, f"place {body.place}")
    if not (dispatch.settled[0] | dispatch.settled[1]) >> body.place & 1:
        raise JournalCorrupt(Reason.ILLEGAL_STATE, f"place {body.place} has no outcome")
    if body.score_id in head.scored:
        raise JournalCorrupt(Reason.ON_RECORD, f"score {body.score_id}")
    if len(head.scored) >= MOST_SCORES:
        raise JournalCorrupt(Reason.SCORES)
    return msgspec.structs.replace(head, scored=(*head.scored, body.score_id))


def _turn_ended(head: TurnHead, body: TurnEnded, fact: Fact) -> TurnHead:
    for each in body.progress:
        child = head.children.get(each.step)
        # An unknown child is refused by `with_progress` below, with its own reason.
        if child is not None:
            owned(head, child.dispatch_id, fact)
    # The progress is applied before the check, because the same fact closes the children that are still open.
    ended = with_progress(head, fact, CLOSED)
    if ended.open_children:
        raise JournalCorrupt(Reason.OPEN_CHILDREN, f"step {min(ended.open_children)}")
    return msgspec.structs.replace(with_claims(ended, body), ended=True)


_RULES: Final[Mapping[type[Any], Callable[[TurnHead, Any, Fact], TurnHead]]] = MappingProxyType(
    {
        DispatchOpened: _dispatch_opened,
        ChildrenOpened: _children_opened,
        AttemptRepeated: _attempt_repeated,
        ChildNoted: _child_noted,
        CallsCancelled: _calls_cancelled,
        CallsSettled: _calls_settled,
        DelegationSettled: _delegation_settled,
        ChildClosed: _child_closed,
        DispatchTaken: _dispatch_taken,
        QuestionAnswered: _question_answered,
        ScoreRecorded: _score_recorded,
        TurnEnded: _turn_ended,
    }
)
