"""The checks and changes of heads that the rules of several kinds of facts share.

A head is the present state of a turn, a dispatch or a child (`heads.py`). A mark is one event of a child in a fact, and
`What` is the kind of the event (`marks.py`); the marks of a child in one fact are its progress. Sets of places
(`settled`, which has one set for each revision, and `cancelled`) and of steps (`steps`) are integers: bit `n`
represents number `n`.

`rules.py` applies these checks and changes to each new fact. A broken rule raises `JournalCorrupt`, which the appending
sidecar gets as a refusal (`FactRejected`). Readers and verification apply the same rules to stored facts.
"""

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Final

import msgspec

from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import ChildId, DispatchId
from sidecar.core.journal.entries import Fact
from sidecar.core.journal.facts import (
    CallsSettled,
    ChildrenOpened,
    ChildStart,
    DispatchOpened,
    Progress,
    Settlement,
    TurnEnded,
)
from sidecar.core.journal.heads import ChildHead, DispatchHead, TurnHead, links_of, named_steps, progress_of
from sidecar.core.journal.marks import What
from sidecar.core.journal.refusals import JournalCorrupt, Reason

STATE_AFTER: Final[Mapping[What, ExecutionState]] = MappingProxyType(
    {
        What.STARTED: ExecutionState.RUNNING,
        What.WAITING: ExecutionState.WAITING_FOR_MERGE,
        What.FAILED: ExecutionState.FAILED,
        What.ACCEPTED: ExecutionState.COMPLETED,
        What.REJECTED: ExecutionState.FAILED,
        What.CLOSED: ExecutionState.CLOSED,
    }
)
"""The state after an event; events that are not listed change no state."""
NOT_WHILE_RUNNING: Final = frozenset({What.CREATED, What.STARTED, What.ACCEPTED, What.REJECTED, What.CLOSED})
"""Events that a running child cannot have: they come before it starts, or after its work has ended."""
POSSIBLE: Final[Mapping[ExecutionState, Set[What]]] = MappingProxyType(
    {
        ExecutionState.CREATED: frozenset({What.STARTED, What.FAILED}),
        ExecutionState.RUNNING: frozenset(What) - NOT_WHILE_RUNNING,
        ExecutionState.WAITING_FOR_MERGE: frozenset({What.ACCEPTED, What.REJECTED}),
        ExecutionState.COMPLETED: frozenset({What.CLOSED}),
        ExecutionState.FAILED: frozenset({What.CLOSED}),
        ExecutionState.CLOSED: frozenset(),
    }
)
"""Events that a child may have in each state: those of the moves in `states.MOVES`, and all others while it runs."""

STILL_RUNNING: Final = frozenset({ExecutionState.RUNNING})
WORK_OVER: Final = frozenset({ExecutionState.WAITING_FOR_MERGE, ExecutionState.FAILED})
CLOSED: Final = frozenset({ExecutionState.CLOSED})
# Revision 0 is the outcome of a call. If its append is not confirmed in time, the parent gets a failure instead, which
# is revision 1. With one revision only, this failure could not be recorded, and the parent would retry for ever.
MOST_REVISIONS: Final = 2


def dispatch_of(head: TurnHead, dispatch_id: DispatchId) -> DispatchHead:
    """Return a dispatch. Raises `JournalCorrupt`."""
    dispatch = head.dispatches.get(dispatch_id)
    if dispatch is None:
        raise JournalCorrupt(Reason.UNKNOWN_DISPATCH, dispatch_id)
    return dispatch


def owned(head: TurnHead, dispatch_id: DispatchId, fact: Fact) -> DispatchHead:
    """Return a dispatch that belongs to the appending sidecar. Raises `JournalCorrupt`."""
    dispatch = dispatch_of(head, dispatch_id)
    # A process that was suspended beyond its lease does not know that it lost the dispatch. This check stops it.
    if dispatch.owner != fact.draft.by:
        raise JournalCorrupt(Reason.NOT_OWNER, dispatch_id)
    return dispatch


def child_of(head: TurnHead, step: int, dispatch_id: DispatchId | None) -> ChildHead:
    """Return a child, of the given dispatch or of any. Raises `JournalCorrupt`."""
    child = head.children.get(step)
    if child is None:
        raise JournalCorrupt(Reason.UNKNOWN_CHILD, f"step {step}")
    if dispatch_id not in {None, child.dispatch_id}:
        raise JournalCorrupt(Reason.CHILD_MISSING, f"step {step} of {dispatch_id}")
    return child


def _named(head: TurnHead, step: int, dispatch_id: DispatchId) -> ChildHead:
    """Return a child that a fact refers to without having events of it. Raises `JournalCorrupt`."""
    # Not `child_of`: a missing child is not an event without a child here, but a reference to a child that its dispatch
    # does not have, so the reason is `CHILD_MISSING` in both cases.
    child = head.children.get(step)
    if child is None or child.dispatch_id != dispatch_id:
        raise JournalCorrupt(Reason.CHILD_MISSING, f"step {step} of {dispatch_id}")
    return child


def with_claims(head: TurnHead, body: DispatchOpened | TurnEnded) -> TurnHead:
    """Return the head, marked as having the claims of the turn's surface token.

    Raises `JournalCorrupt` if the claims are neither recorded nor part of this fact.
    """
    if body.claims is None and not head.bound:
        raise JournalCorrupt(Reason.UNBOUND)
    return head if head.bound else msgspec.structs.replace(head, bound=True)


def refuse_finished_call(dispatch: DispatchHead, step: int) -> None:
    """Raise `JournalCorrupt` if the call at a step has its outcome or was cancelled."""
    place = dispatch.place_of(step)
    # A sidecar that takes a dispatch over must not run a call that its parent knows to have ended or to be cancelled.
    if place is not None and (dispatch.settled[0] | dispatch.settled[1] | dispatch.cancelled) >> place & 1:
        raise JournalCorrupt(Reason.CALL_OVER, f"step {step}")


def refuse_outdated(head: TurnHead, fact: Fact) -> None:
    """Raise `JournalCorrupt` if a fact does not follow its predecessors."""
    expected = links_of(head, fact.draft.body)
    # The links name the newest facts that the appending sidecar knew. If newer facts are recorded, the sidecar decided
    # on outdated knowledge.
    if fact.links == expected:
        return
    # `links_of` gives the links of children with progress last. If these differ, another fact of such a child was
    # recorded first. Otherwise the dispatch has a new owner, or the turn has newer facts.
    concerned = len(progress_of(fact.draft.body))
    if concerned and fact.links[-concerned:] != expected[-concerned:]:
        raise JournalCorrupt(Reason.NOT_FOLLOWING)
    raise JournalCorrupt(Reason.OUTDATED)


def with_dispatch(head: TurnHead, dispatch_id: DispatchId, dispatch: DispatchHead) -> TurnHead:
    """Return the head with the new state of a dispatch."""
    return msgspec.structs.replace(head, dispatches={**head.dispatches, dispatch_id: dispatch})


def with_steps(head: TurnHead, steps: int) -> TurnHead:
    """Return the head with more steps used or reserved. Raises `JournalCorrupt` if one of them already is."""
    # Two sidecars may open a dispatch in the same turn at the same moment. Both number their calls from the same step,
    # and the record accepts one of them.
    twice = head.steps & steps
    if twice:
        raise JournalCorrupt(Reason.STEP_RESERVED, f"step {(twice & -twice).bit_length() - 1}")
    return msgspec.structs.replace(head, steps=head.steps | steps)


def with_outcome(head: TurnHead, body: CallsSettled, dispatch: DispatchHead, settled: Settlement) -> DispatchHead:
    """Return a dispatch with one more outcome. Raises `JournalCorrupt`."""
    if not 0 <= settled.place < dispatch.calls or not 0 <= settled.revision < MOST_REVISIONS:
        raise JournalCorrupt(Reason.UNKNOWN_CALL, f"place {settled.place}, revision {settled.revision}")
    before = dispatch.settled[settled.revision]
    # The writer skips a repeated append of the same fact, so this is a different outcome of the call.
    if before >> settled.place & 1:
        raise JournalCorrupt(Reason.ON_RECORD, f"place {settled.place}, revision {settled.revision}")
    # A child that is not on record would never be closed, so it cannot have an outcome.
    if settled.ran:
        _named(head, dispatch.first_step + settled.place, body.dispatch_id)
    now = before | 1 << settled.place
    return msgspec.structs.replace(
        dispatch, settled=(dispatch.settled[0], now) if settled.revision else (now, dispatch.settled[1])
    )


def with_children(head: TurnHead, body: DispatchOpened | ChildrenOpened, fact: Fact) -> TurnHead:
    """Return the head with the starting children. Raises `JournalCorrupt`."""
    dispatch, children, link = head.dispatches[body.dispatch_id], dict(head.children), fact.stored.link
    # Ids and steps are both checked: a step must not have two children, and an id must not have two steps.
    known = {child.child_id for child in children.values()} if children else set[ChildId]()
    for start in body.children:
        if start.step in children:
            raise JournalCorrupt(Reason.STEP_TAKEN, f"step {start.step}")
        if start.child_id in known:
            raise JournalCorrupt(Reason.ON_RECORD, start.child_id)
        if start.parent is not None:
            head = with_steps(_delegated(head, body, start), 1 << start.step)
        elif dispatch.place_of(start.step) is None:
            raise JournalCorrupt(Reason.UNKNOWN_CALL, f"step {start.step}")
        known.add(start.child_id)
        children[start.step] = ChildHead(
            start.child_id, body.dispatch_id, ExecutionState.RUNNING, 0, start.parent is not None, link
        )
    return msgspec.structs.replace(head, children=children)


def _delegated(head: TurnHead, body: DispatchOpened | ChildrenOpened, start: ChildStart) -> TurnHead:
    """Return the unchanged head if the delegating child runs, in the same dispatch. Raises `JournalCorrupt`."""
    # Only children with a parent get here; -1 is for the type checker.
    parent = _named(head, start.parent if start.parent is not None else -1, body.dispatch_id)
    if parent.state is not ExecutionState.RUNNING:
        raise JournalCorrupt(Reason.ILLEGAL_STATE, f"step {start.parent} is {parent.state}")
    return head


def with_progress(head: TurnHead, fact: Fact, ends: Set[ExecutionState], repeats: int = 0) -> TurnHead:
    """Return the head with the new events of existing children. Raises `JournalCorrupt`.

    Args:
        head: before.
        fact: of a kind that can contain events of children; may contain none.
        ends: states that the children may have afterwards.
        repeats: number of repeated attempts.
    """
    body = fact.draft.body
    dispatch_id = None if isinstance(body, TurnEnded) else body.dispatch_id
    children, replace, progress = dict(head.children), msgspec.structs.replace, progress_of(body)
    for each in progress:
        # All children are checked before the links: a closed child gives a more useful reason than a link that does not
        # fit.
        child = child_of(head, each.step, dispatch_id)
        if child.state is ExecutionState.CLOSED:
            raise JournalCorrupt(Reason.CHILD_CLOSED, child.child_id)
    refuse_outdated(head, fact)
    link = fact.stored.link
    # Also children without events here: their calls settle, so a later fact about these children must follow this one.
    for step in named_steps(head, body) if isinstance(body, CallsSettled) else ():
        children[step] = replace(children[step], link=link)
    for each in progress:
        children[each.step] = _progressed(children[each.step], each, ends, repeats, link)
    return replace(head, children=children)


def _progressed(
    child: ChildHead, progress: Progress, ends: Set[ExecutionState], repeats: int, link: bytes
) -> ChildHead:
    state = child.state
    for mark in progress.marks:
        if mark.what not in POSSIBLE[state]:
            raise JournalCorrupt(Reason.ILLEGAL_STATE, f"{mark.what.name} of {child.child_id}, which is {state}")
        state = STATE_AFTER.get(mark.what, state)
    # Each kind of fact leaves its children in certain states: an outcome, for example, must end the work.
    if state not in ends:
        raise JournalCorrupt(Reason.ILLEGAL_STATE, f"{child.child_id} is left {state}")
    # Without a repetition the count stays, or goes from 0 to 1: the opening of a child implies its first attempt, which
    # has no event yet. With `repeats` repetitions the count grows by exactly that many, beginning with 1. It may never
    # fall, or a takeover could make an attempt too many.
    least = child.attempts if not repeats else max(1, child.attempts) + repeats
    if not least <= progress.attempts <= max(1, child.attempts) + repeats:
        raise JournalCorrupt(Reason.ATTEMPTS, f"{progress.attempts} of {child.child_id} after {child.attempts}")
    return msgspec.structs.replace(child, state=state, attempts=progress.attempts, link=link)
