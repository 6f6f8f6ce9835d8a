"""A turn as clients see it: its line in a list, and as much of the turn as fits into one answer.

`read_record` uses it. An answer has a limit of size: texts and events that no longer fit are left out, and the answer
says how many.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from sidecar.core.dispatching.outcomes import Answer, CallOutcome
from sidecar.core.dispatching.routing_record import distinct
from sidecar.core.errors import UnknownTurn
from sidecar.core.executing.events import CLOSED, FAILED_STATUS, ChildEvent
from sidecar.core.executing.records import ScoreRecorded
from sidecar.core.executing.stored_record import StoredChild, StoredDispatch, StoredTurn, TurnRow, TurnState
from sidecar.core.identifiers import ChildId, TurnId

LOST: Final = "parent_lost"
"""Close reason of turns that the sidecar closed for their parent."""
ROW_BYTES: Final = 600
"""Estimated size of the ids, names, times and links of one child, dispatch, event or outcome."""


class TurnSummary(msgspec.Struct, frozen=True):
    """A turn, ready for display.

    Attributes:
        stored: children in emission order. Texts that did not fit are empty; a routing decision that did not fit is
            None.
        texts_left_out, events_left_out: how many did not fit.
    """

    row: TurnRow
    stored: StoredTurn
    texts_left_out: int = 0
    events_left_out: int = 0


def row_of(turn: StoredTurn) -> TurnRow:
    """Return the line of a turn in a list. Raises `UnknownTurn` if its begin is not recorded."""
    first = min((each.opened for each in turn.dispatches), key=lambda opened: opened.opened_at, default=None)
    ended = turn.ended
    # A turn is recorded from its first dispatch on; one without a dispatch has only its end.
    if first is not None:
        episode_id, principal, began_at = first.episode_id, first.principal, first.opened_at
    elif ended is not None:
        episode_id, principal, began_at = ended.episode_id, ended.principal, ended.ended_at
    else:
        raise unknown(turn.turn_id)
    children = in_order(turn.children)
    return TurnRow(
        turn_id=turn.turn_id,
        episode_id=episode_id,
        principal=principal,
        state=_state(turn),
        began_at=began_at,
        ended_at=ended.ended_at if ended else None,
        slots=distinct([child.opened.slot for child in children]),
        children=len(children),
        failed=sum(1 for child in children if _failed(child)),
    )


def unknown(turn_id: TurnId) -> UnknownTurn:
    """Return the error for a turn that the record does not have."""
    return UnknownTurn(
        "nothing is on record of this turn; a turn is on record from its first dispatch or its end on, until it is old "
        "enough to be removed",
        metadata={"turn_id": turn_id},
    )


def in_order(children: Sequence[StoredChild]) -> list[StoredChild]:
    """Return children in emission order."""
    return sorted(children, key=lambda child: child.opened.step_idx)


def only(turn: StoredTurn, child_ids: Sequence[ChildId]) -> StoredTurn:
    """Return the turn with the named children and the outcomes of their calls; without names, the whole turn."""
    wanted = dict.fromkeys(child_ids)
    children = [child for child in turn.children if not wanted or child.opened.child_id in wanted]
    # Outcomes are sorted, because a store returns them in no particular order.
    dispatches = [
        msgspec.structs.replace(
            dispatch,
            outcomes=tuple(
                each
                for each in sorted(dispatch.outcomes, key=lambda outcome: outcome.emission_index)
                if not wanted or each.child_id in wanted
            ),
        )
        for dispatch in turn.dispatches
    ]
    return msgspec.structs.replace(turn, children=tuple(in_order(children)), dispatches=tuple(dispatches))


def truncate_to_size(row: TurnRow, turn: StoredTurn, most_bytes: int) -> TurnSummary:
    """Return as much of a turn as fits into `most_bytes`; short texts come before long ones."""
    room = _Room(most_bytes)
    # Events of all children before the details of any: a reader can fetch one child's details with `child_ids`, but
    # must see what happened to each.
    children = [_with_events(child, room) for child in turn.children]
    dispatches = [_dispatch(dispatch, room) for dispatch in turn.dispatches]
    children = [_with_details(child, room) for child in children]
    routing = turn.routing
    # Twice the JSON is an upper bound of its size as protobuf, with room for the fields that are written out.
    if routing is not None and not room.text_fits(2 * len(msgspec.json.encode(routing))):
        routing = None
    ended = turn.ended
    if ended is not None and not room.text_fits(len(ended.narration.encode())):
        ended = msgspec.structs.replace(ended, narration="")
    stored = msgspec.structs.replace(
        turn,
        dispatches=tuple(dispatches),
        children=tuple(children),
        ended=ended,
        routing=routing,
        scores=tuple(_score(each, room) for each in turn.scores),
    )
    return TurnSummary(row, stored, room.texts_left_out, room.events_left_out)


def _score(score: ScoreRecorded, room: "_Room") -> ScoreRecorded:
    room.row()
    if room.text_fits(len(score.explanation.encode())):
        return score
    return msgspec.structs.replace(score, explanation="")


class _Room:
    """The remaining size of an answer, in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self.texts_left_out = 0
        self.events_left_out = 0

    def text_fits(self, size: int) -> bool:
        """Take room for a text, or count it as left out."""
        if self._take(size):
            return True
        self.texts_left_out += 1
        return False

    def event_fits(self, event: ChildEvent) -> bool:
        """Take room for an event without its details, or count it as left out."""
        if self._take(ROW_BYTES + len(event.summary.encode())):
            return True
        self.events_left_out += 1
        return False

    def row(self) -> None:
        """Reserve room for a row that is never left out: a dispatch has at most 64 calls, and a turn few dispatches."""
        # May become negative: rows are never left out, and then no text fits any more.
        self._left -= ROW_BYTES

    def _take(self, size: int) -> bool:
        if size > self._left:
            return False
        self._left -= size
        return True


def _with_events(child: StoredChild, room: _Room) -> StoredChild:
    """Return a child with the events that fit."""
    room.row()
    kept = [event for event in child.events if room.event_fits(event)]
    return msgspec.structs.replace(child, events=tuple(kept))


def _with_details(child: StoredChild, room: _Room) -> StoredChild:
    """Return a child with those of its long texts that fit: its contract, and the details of its events."""
    opened = child.opened
    if not room.text_fits(len(opened.context_json.encode())):
        opened = msgspec.structs.replace(opened, context_json="")
    events = [
        event if room.text_fits(len(event.details_json.encode())) else msgspec.structs.replace(event, details_json="")
        for event in child.events
    ]
    return msgspec.structs.replace(child, opened=opened, events=tuple(events))


def _dispatch(dispatch: StoredDispatch, room: _Room) -> StoredDispatch:
    room.row()
    return msgspec.structs.replace(dispatch, outcomes=tuple(_outcome(each, room) for each in dispatch.outcomes))


def _outcome(outcome: CallOutcome, room: _Room) -> CallOutcome:
    room.row()
    question = outcome.question
    if question is not None and not room.text_fits(len(msgspec.json.encode(question))):
        outcome = msgspec.structs.replace(outcome, question=None)
    # Whole or not at all: a narration that is cut in the middle could be read as complete. An empty answer needs no
    # more room than its row.
    if outcome.answer == Answer() or room.text_fits(len(msgspec.json.encode(outcome.answer))):
        return outcome
    # Kept in any case, because it is short and tells that the answer was given without some data.
    return msgspec.structs.replace(outcome, answer=Answer(data_unavailable=outcome.answer.data_unavailable))


def _state(turn: StoredTurn) -> TurnState:
    if turn.ended is None:
        return TurnState.OPEN
    return TurnState.LOST if turn.ended.close_reason == LOST else TurnState.ENDED


def _failed(child: StoredChild) -> bool:
    # A child has no final status before it is closed, whatever its outcome is: the parent decides.
    last = child.events[-1] if child.events else None
    return last is not None and last.name == CLOSED and last.details().get("final_status") == FAILED_STATUS
