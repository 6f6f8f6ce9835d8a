"""A group of records as texts: what `record_append` takes.

The database takes all rows of a kind at once. Where the order between kinds matters, the group is cut into parts, which
are taken one after the other; a group of a running turn is one part.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from sidecar.adapters.postgresql.texts import stored
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import (
    AttemptRecorded,
    CallSettled,
    ChildOpened,
    DispatchOpened,
    DispatchTaken,
    Record,
    TurnEnded,
)
from sidecar.core.identifiers import ChildId, TurnId

KIND: Final[dict[type[Any], str]] = {
    DispatchOpened: "dispatches",
    DispatchTaken: "owners",
    ChildOpened: "children",
    ChildEvent: "events",
    AttemptRecorded: "attempts",
    CallSettled: "outcomes",
    TurnEnded: "ends",
    RoutingRecord: "routing",
}


class Part:
    """Rows by kind, in the order of the group; every kind may be taken as a whole, in the order of `KIND`."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}
        self._worked_in: set[TurnId] = set()
        self._ended: set[TurnId] = set()
        self._newest: dict[ChildId, int] = {}

    def add(self, record: Record, turn_id: TurnId) -> bool:
        """Add a record, unless what is here already has to be taken before its kind is; say whether it was added."""
        if self._has_to_wait(record, turn_id):
            return False
        self.rows.setdefault(KIND[type(record)], []).append(_row(record))
        match record:
            case ChildEvent():
                self._newest[record.child_id] = record.sequence
                self._worked_in.add(turn_id)
            case TurnEnded():
                self._ended.add(turn_id)
            case DispatchOpened() | RoutingRecord():
                pass
            case _:
                self._worked_in.add(turn_id)
        return True

    def _has_to_wait(self, record: Record, turn_id: TurnId) -> bool:
        match record:
            case RoutingRecord():
                return False
            case DispatchOpened() | DispatchTaken():
                return turn_id in self._ended or turn_id in self._worked_in
            case ChildOpened():
                return turn_id in self._ended or record.child_id in self._newest
            case ChildEvent():
                return turn_id in self._ended or record.sequence <= self._newest.get(record.child_id, 0)
            case _:
                return turn_id in self._ended


def turn_of(record: Record) -> TurnId:
    """Return the turn of a record."""
    return record.run_id if isinstance(record, ChildEvent) else record.turn_id


def group_json(records: Sequence[Record]) -> tuple[list[str], list[str], list[str]]:
    """Return the turns of a group, kinds in the order in which they are to be taken, and the rows of each as JSON.

    Raises:
        RecordConflict: the group contradicts itself.
    """
    parts = [Part()]
    for record in _each_once(records):
        if not parts[-1].add(record, turn_of(record)):
            parts.append(Part())
            parts[-1].add(record, turn_of(record))
    turns: list[str] = list(dict.fromkeys(turn_of(record) for record in records))
    taken = [(kind, part.rows[kind]) for part in parts for kind in KIND.values() if kind in part.rows]
    return turns, [kind for kind, _ in taken], [stored(_text(rows)) for _, rows in taken]


def _each_once(records: Sequence[Record]) -> list[Record]:
    found: dict[str, Record] = {}
    for record in records:
        there = found.setdefault(record.record_id, record)
        if there is not record and there != record:
            raise RecordConflict(
                f"{type(record).__name__} is in one group twice, with different contents",
                metadata={"record_id": record.record_id},
            )
    return list(found.values())


def _row(record: Record) -> Any:
    """Return what encodes to the columns of a record's table."""
    match record:
        case ChildOpened():
            return {**msgspec.structs.asdict(record), "opening_link": record.link}
        case CallSettled():
            return {
                "turn_id": record.turn_id,
                "dispatch_id": record.dispatch_id,
                "call_id": record.outcome.call_id,
                "revision": record.revision,
                "outcome_json": _text(record.outcome),
                "settled_at": record.settled_at,
            }
        case RoutingRecord():
            return {
                "turn_id": record.turn_id,
                "episode_id": record.episode_id,
                "ended_at": record.ended_at,
                "called": record.called,
                "record_json": _text(record),
            }
        case _:
            return record


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
