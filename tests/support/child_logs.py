"""Verifies what is kept of one child: its row, its chain of events, and the states they lead through.

What this shows by itself: an event that was altered, moved or left out, and a row that was altered. A tail that was cut
off, and a child whose chain was written anew as a whole, show against the running root only: `verify_roots`.
"""

from collections.abc import Iterator
from datetime import UTC
from typing import Final

import msgspec

from sidecar.core.executing.events import CLOSED, CREATED, STATE_AFTER, ChildEvent
from sidecar.core.verifying.findings import Finding, FindingKind, of_event
from sidecar.core.executing.records import ChildOpened
from sidecar.core.executing.states import MOVES, ExecutionState
from sidecar.core.executing.stored_record import StoredChild, StoredTurn

MOST_PLACES: Final = 64
"""Events of a child among which a moved one's own place is looked for; it takes their square."""


def child_findings(child: StoredChild) -> Iterator[Finding]:
    """Yield what is wrong with one child by itself.

    Args:
        child: with its events by sequence.
    """
    if not child.events:
        text = f"child {child.opened.child_id} has a row and no event at all; each is stored with its first event"
        yield Finding(FindingKind.EVENT_MISSING, text, child_id=child.opened.child_id, sequence=1)
        return
    child = _in_utc(child)
    moved = {event.sequence: place for event in child.events if (place := _own_place(event, child)) is not None}
    yield from _chain_findings(child, moved)
    yield from _state_findings(child.events)


def _in_utc(child: StoredChild) -> StoredChild:
    """Return the child with its times as they were hashed; a database may give them in the zone of its session."""
    times = (child.opened.opened_at, *(event.time for event in child.events))
    if not any(time.utcoffset() for time in times):
        return child
    replace = msgspec.structs.replace
    opened = replace(child.opened, opened_at=child.opened.opened_at.astimezone(UTC))
    return StoredChild(opened, tuple(replace(event, time=event.time.astimezone(UTC)) for event in child.events))


def closing_event(child: StoredChild) -> ChildEvent | None:
    """Return the event that closed the child, if there is one."""
    return next((event for event in child.events if event.name == CLOSED), None)


def _chain_findings(child: StoredChild, moved: dict[int, int]) -> Iterator[Finding]:
    link, sequence = child.opened.link, 0
    links = [event.link for event in child.events] if moved else []
    for event in child.events:
        if event.sequence in moved:
            text = f"{_named(event)} is the one that was written as event {moved[event.sequence]}"
            yield of_event(FindingKind.EVENTS_REORDERED, event, text)
        elif event.sequence != sequence + 1:
            yield _gap(event, sequence)
        elif event.previous_link != link and event.previous_link not in links:
            yield _not_following(event, child.opened, sequence)
        if event.sequence not in moved and not _is_whole(event, child.opened):
            yield of_event(
                FindingKind.EVENT_ALTERED, event, f"{_named(event)} was altered: its contents do not give its link"
            )
        link, sequence = event.link, event.sequence


def _gap(event: ChildEvent, before: int) -> Finding:
    child_id, expected = event.child_id, before + 1
    if event.sequence <= before:
        text = f"event {event.sequence} of child {child_id} is there more than once"
        return of_event(FindingKind.EVENTS_REORDERED, event, text)
    which = f"event {expected}" if event.sequence == expected + 1 else f"events {expected} to {event.sequence - 1}"
    text = f"{which} of child {child_id} missing; the next one there is {event.sequence} ({event.name})"
    return Finding(FindingKind.EVENT_MISSING, text, child_id=child_id, sequence=expected)


def _not_following(event: ChildEvent, opened: ChildOpened, before: int) -> Finding:
    if before == 0:
        text = f"the row of child {opened.child_id}, contract included, is not the one that its first event links to"
        return of_event(FindingKind.ROW_ALTERED, event, text)
    text = f"{_named(event)} does not link to event {before}: one between them was left out, or {before} was altered"
    return of_event(FindingKind.EVENT_MISSING, event, text)


def _is_whole(event: ChildEvent, opened: ChildOpened) -> bool:
    """Say whether an event is as it was written; its ids stand in the row, which the chain begins at."""
    own_ids = event.child_id == opened.child_id and event.run_id == opened.turn_id
    return own_ids and event.relinked(event.previous_link) == event.link


def _own_place(event: ChildEvent, child: StoredChild) -> int | None:
    """Return under which other sequence number the event would be whole, if it is not whole where it stands."""
    if len(child.events) > MOST_PLACES or _is_whole(event, child.opened):
        return None
    links = [event.previous_link, child.opened.link, *(other.link for other in child.events)]
    for sequence in range(1, child.events[-1].sequence + 2):
        there = msgspec.structs.replace(event, sequence=sequence)
        if sequence != event.sequence and any(there.relinked(link) == event.link for link in links):
            return sequence
    return None


def _state_findings(events: tuple[ChildEvent, ...]) -> Iterator[Finding]:
    state = ExecutionState.CREATED
    for position, event in enumerate(events):
        after = STATE_AFTER.get(event.name)
        if state is ExecutionState.CLOSED:
            text = f"{_named(event)} came after the child was closed"
            yield of_event(FindingKind.EVENT_AFTER_CLOSED, event, text)
        elif (event.name == CREATED) != (position == 0):
            text = f"{_named(event)}: a child is created once, by its first event"
            yield of_event(FindingKind.ILLEGAL_ORDER, event, text)
        elif after is not None and event.name != CREATED and after not in MOVES[state]:
            yield of_event(
                FindingKind.ILLEGAL_ORDER, event, f"{_named(event)} is not possible for a child that is {state}"
            )
        if after is not None and state is not ExecutionState.CLOSED:
            state = after


def _named(event: ChildEvent) -> str:
    return f"event {event.sequence} ({event.name}) of child {event.child_id}"


def turn_findings(turn: StoredTurn) -> Iterator[Finding]:
    """Yield what the rest of a turn says of its children: outcomes name them, and no turn ends before they have."""
    there = {child.opened.child_id: child for child in turn.children}
    for dispatch in turn.dispatches:
        for outcome in dispatch.outcomes:
            if outcome.child_id is not None and outcome.child_id not in there:
                text = (
                    f"the outcome of call {outcome.call_id} of turn {turn.turn_id} names child {outcome.child_id}, "
                    "which is not there"
                )
                yield Finding(FindingKind.CHILD_REMOVED, text, child_id=outcome.child_id)
    for child_id, child in there.items():
        if child.opened.parent_child_id is not None and child.opened.parent_child_id not in there:
            text = f"child {child_id} was delegated by child {child.opened.parent_child_id}, which is not there"
            yield Finding(FindingKind.CHILD_REMOVED, text, child_id=child.opened.parent_child_id)
        if turn.ended is not None and closing_event(child) is None:
            text = (
                f"turn {turn.turn_id} has ended, which needs all its children closed, "
                f"and child {child_id} has no closing event"
            )
            yield Finding(FindingKind.TAIL_CUT, text, child_id=child_id, sequence=len(child.events) + 1)
