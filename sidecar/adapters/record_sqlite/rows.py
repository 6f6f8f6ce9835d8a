"""Turns records into the values of rows and back, so that what is read equals what was appended."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, TypeVar

import apsw
import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.executing.events import CLOSED, STATE_AFTER, ChildEvent
from sidecar.core.executing.records import AttemptRecorded, ChildOpened
from sidecar.core.identifiers import AttemptId, CallId, ChildId, DispatchId, EpisodeId, Slot, TurnId

Body = TypeVar("Body")
Row = tuple[str | int | None, ...]
"""Values for a statement."""
Found = tuple[Any, ...]
"""What a statement brought; the schema is strict about types."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)

CHILD_COLUMNS: Final = (
    "child_id, turn_id, episode_id, dispatch_id, call_id, slot, step_idx, context_json, opened_at, parent_child_id"
)
EVENT_COLUMNS: Final = (
    "event_id, child_id, run_id, sequence, name, time, actor, summary, details_json, previous_link, link"
)
ATTEMPT_COLUMNS: Final = "attempt_id, child_id, turn_id, dispatch_id, number, frames_json"

STATE_TEXT: Final[Mapping[str, str]] = MappingProxyType({name: state.value for name, state in STATE_AFTER.items()})
"""What the column `state` says after an event, where the event changes it."""


def microseconds(time: datetime) -> int:
    """Return a time as a number that can be compared."""
    return (time - EPOCH) // MICROSECOND


def time_of(number: int) -> datetime:
    """Return the time that `microseconds` made a number of, in UTC."""
    return EPOCH + number * MICROSECOND


def body_of(value: Any) -> str:
    """Return a record as JSON text."""
    return msgspec.json.encode(value).decode()


def from_body(text: Any, kind: type[Body]) -> Body:
    """Return the record that `body_of` wrote down."""
    return from_json(text, kind)


def found(connection: apsw.Connection, statement: str, values: Row = ()) -> list[Found]:
    """Return all rows of a statement."""
    return connection.execute(statement, values).fetchall()


def child_row(child: ChildOpened) -> Row:
    """Return the values of `CHILD_COLUMNS`."""
    return (
        child.child_id,
        child.turn_id,
        child.episode_id,
        child.dispatch_id,
        child.call_id,
        child.slot,
        child.step_idx,
        child.context_json,
        child.opened_at.isoformat(),
        child.parent_child_id,
    )


def child_from(row: Found) -> ChildOpened:
    """Return the child of `CHILD_COLUMNS`."""
    return ChildOpened(
        child_id=ChildId(row[0]),
        turn_id=TurnId(row[1]),
        episode_id=EpisodeId(row[2]),
        dispatch_id=DispatchId(row[3]),
        call_id=CallId(row[4]),
        slot=Slot(row[5]),
        step_idx=row[6],
        context_json=row[7],
        opened_at=datetime.fromisoformat(row[8]),
        parent_child_id=None if row[9] is None else ChildId(row[9]),
    )


def event_row(event: ChildEvent) -> Row:
    """Return the values of `EVENT_COLUMNS`."""
    return (
        event.event_id,
        event.child_id,
        event.run_id,
        event.sequence,
        event.name,
        event.time.isoformat(),
        event.actor,
        event.summary,
        event.details_json,
        event.previous_link,
        event.link,
    )


def event_from(row: Found) -> ChildEvent:
    """Return the event of `EVENT_COLUMNS`."""
    return ChildEvent(
        event_id=row[0],
        child_id=ChildId(row[1]),
        run_id=TurnId(row[2]),
        sequence=row[3],
        name=row[4],
        time=datetime.fromisoformat(row[5]),
        actor=row[6],
        summary=row[7],
        details_json=row[8],
        previous_link=row[9],
        link=row[10],
    )


def final_status_of(event: ChildEvent) -> str | None:
    """Return how a child ended, if `event` ends it."""
    return str(event.details().get("final_status")) if event.name == CLOSED else None


def attempt_row(attempt: AttemptRecorded) -> Row:
    """Return the values of `ATTEMPT_COLUMNS`."""
    return (
        attempt.attempt_id,
        attempt.child_id,
        attempt.turn_id,
        attempt.dispatch_id,
        attempt.number,
        attempt.frames_json,
    )


def attempt_from(row: Found) -> AttemptRecorded:
    """Return the attempt of `ATTEMPT_COLUMNS`."""
    return AttemptRecorded(AttemptId(row[0]), ChildId(row[1]), TurnId(row[2]), DispatchId(row[3]), row[4], row[5])
