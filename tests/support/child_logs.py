"""Checks the log of one child: each event follows the one before, is linked to it, and is possible where it stands."""

from collections.abc import Iterator, Sequence

from sidecar.core.executing.events import CREATED, STATE_AFTER, ChildEvent
from sidecar.core.executing.records import ChildOpened
from sidecar.core.executing.states import MOVES, ExecutionState


def child_problems(opened: ChildOpened, events: Sequence[ChildEvent]) -> Iterator[str]:
    """Yield what is wrong with the log of a child."""
    link, state = opened.link, ExecutionState.CREATED
    for number, event in enumerate(events, 1):
        where = f"event {event.sequence} ({event.name}) of {event.child_id}"
        if (event.child_id, event.run_id, event.sequence) != (opened.child_id, opened.turn_id, number):
            yield f"{where} is not event {number} of {opened.child_id}"
        if event.previous_link != link or event.relinked(link) != event.link:
            yield f"{where} is not linked to the one before"
        after = STATE_AFTER.get(event.name)
        if state is ExecutionState.CLOSED or (event.name == CREATED) != (number == 1):
            yield f"{where} comes at another time"
        if after is not None and event.name != CREATED and after not in MOVES[state]:
            yield f"{where} is not possible for a child that is {state}"
        link, state = event.link, after or state
