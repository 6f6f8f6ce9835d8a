"""Appends one group in one transaction, and holds it to the rules of the port. Runs in the writer's thread."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import apsw
from msgspec import Struct

from sidecar.adapters.record_sqlite.projecting import dispatch_in_turns, end_in_turns
from sidecar.adapters.record_sqlite.rows import (
    ATTEMPT_COLUMNS,
    CHILD_COLUMNS,
    EVENT_COLUMNS,
    STATE_TEXT,
    Found,
    Row,
    attempt_from,
    attempt_row,
    body_of,
    child_from,
    child_row,
    event_from,
    event_row,
    final_status_of,
    from_body,
    microseconds,
)
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.chain import closed_root
from sidecar.core.executing.events import CLOSED, ChildEvent
from sidecar.core.executing.records import (
    AttemptRecorded,
    CallSettled,
    ChildOpened,
    DispatchOpened,
    DispatchTaken,
    Record,
    TurnEnded,
)
from sidecar.core.identifiers import ChildId, DispatchId, InstanceId, TurnId

NEW_CHILD: Final = f"INSERT INTO sub_agents ({CHILD_COLUMNS}, last_link) VALUES (?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - names only
NEW_EVENT: Final = f"INSERT INTO sub_agent_events ({EVENT_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - names only
NEW_ATTEMPT: Final = f"INSERT INTO attempts ({ATTEMPT_COLUMNS}) VALUES (?,?,?,?,?,?)"  # noqa: S608 - names only
NEW_LINK: Final = "INSERT INTO closed_children (instance, number, child_id, last_link, root) VALUES (?,?,?,?,?)"
CHILD: Final = f"SELECT {CHILD_COLUMNS} FROM sub_agents WHERE child_id = ?"  # noqa: S608 - names only
EVENT: Final = f"SELECT {EVENT_COLUMNS} FROM sub_agent_events WHERE event_id = ?"  # noqa: S608 - names only
ATTEMPT: Final = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE attempt_id = ?"  # noqa: S608 - names only
OUTCOME: Final = "SELECT body FROM call_outcomes WHERE turn_id = ? AND dispatch_id = ? AND call_id = ? AND revision = ?"
ANY_OUTCOME: Final = "SELECT 1 FROM call_outcomes WHERE turn_id = ? AND dispatch_id = ? AND call_id = ? LIMIT 1"
HEAD: Final = "SELECT turn_id, dispatch_id, sequence, last_link, state FROM sub_agents WHERE child_id = ?"
SETTLED: Final = "UPDATE dispatches SET unsettled = unsettled - ? WHERE turn_id = ? AND dispatch_id = ?"
OWNERS: Final = "SELECT epoch, instance FROM dispatch_owners WHERE turn_id = ? AND dispatch_id = ?"
"""Nearly always one row. Asked for the newest alone, SQLite takes five times as long in each new transaction."""


class _Head(Struct):
    """The end of a child's chain, with the events of this transaction."""

    turn_id: TurnId
    dispatch_id: DispatchId
    sequence: int
    last_link: str
    state: str
    last_at: int | None = None
    final_status: str | None = None


class Appending:
    """One transaction.

    Args:
        connection: within a transaction; whoever made it commits, or undoes everything if `append` raises.
        instance: who appends.
    """

    def __init__(self, connection: apsw.Connection, instance: InstanceId) -> None:
        self._connection = connection
        self._instance = instance
        self._owners: dict[tuple[str, str], tuple[Any, ...] | None] = {}
        self._heads: dict[ChildId, _Head] = {}
        self._events: dict[str, ChildEvent] = {}
        self._links: list[tuple[ChildId, str]] = []
        self._settled_calls: Counter[tuple[str, str]] = Counter()

    def append(self, records: Sequence[Record]) -> None:
        """Append all of them. Raises `RecordConflict`."""
        for record in records:
            self._append(record)
        self._write_events()
        self._connection.executemany(SETTLED, [(calls, *key) for key, calls in self._settled_calls.items()])

    def _append(self, record: Record) -> None:
        match record:
            case ChildEvent():
                self._event(record)
            case CallSettled():
                self._settled(record)
            case ChildOpened():
                self._child(record)
            case AttemptRecorded():
                self._attempt(record)
            case DispatchOpened():
                self._dispatch(record)
            case DispatchTaken():
                self._taken(record)
            case TurnEnded():
                self._end(record)
            case RoutingRecord():
                self._routing(record)

    # --- one kind of record each

    def _dispatch(self, record: DispatchOpened) -> None:
        key = (record.turn_id, record.dispatch_id)
        there = self._row("SELECT body FROM dispatches WHERE turn_id = ? AND dispatch_id = ?", key)
        if self._is_there(record, there, lambda row: from_body(row[0], DispatchOpened)):
            return
        self._refuse_after_end(record, record.turn_id)
        self._run(
            "INSERT INTO dispatches (turn_id, dispatch_id, opened_at, unsettled, body) VALUES (?,?,?,?,?)",
            (*key, microseconds(record.opened_at), record.calls, body_of(record)),
        )
        self._run(
            "INSERT INTO dispatch_owners VALUES (?,?,0,?,?)", (*key, self._instance, record.opened_at.isoformat())
        )
        self._owners[key] = (self._instance, 0)
        dispatch_in_turns(self._connection, record)

    def _taken(self, record: DispatchTaken) -> None:
        key = (record.turn_id, record.dispatch_id)
        wanted = (self._instance, record.taken_at.isoformat())
        there = self._row(
            "SELECT instance, taken_at FROM dispatch_owners WHERE turn_id = ? AND dispatch_id = ? AND epoch = ?",
            (*key, record.epoch),
        )
        if there == wanted and record.epoch > 0:
            return  # this instance has taken it with that epoch, whoever has taken it since
        owner = self._owner(*key)
        if owner is None or record.epoch != owner[1] + 1:
            raise conflict(record, "is not the next owner of a dispatch that is on record")
        self._run("INSERT INTO dispatch_owners VALUES (?,?,?,?,?)", (*key, record.epoch, *wanted))
        self._owners[key] = (self._instance, record.epoch)

    def _child(self, record: ChildOpened) -> None:
        if self._is_there(record, self._row(CHILD, (record.child_id,)), child_from):
            return
        self._refuse_after_end(record, record.turn_id)
        self._refuse_foreign(record, record.turn_id, record.dispatch_id)
        if self._row("SELECT 1 FROM sub_agents WHERE turn_id = ? AND step_idx = ?", (record.turn_id, record.step_idx)):
            raise conflict(record, "takes a step that another child has")
        link = record.link
        self._run(NEW_CHILD, (*child_row(record), link))
        self._heads[record.child_id] = _Head(record.turn_id, record.dispatch_id, 0, link, "created")

    def _event(self, record: ChildEvent) -> None:
        head = self._head(record)
        if record.sequence <= head.sequence or record.event_id in self._events:
            fresh = self._events.get(record.event_id)
            there = event_row(fresh) if fresh else self._row(EVENT, (record.event_id,))
            if self._is_there(record, there, event_from):
                return
        self._refuse_foreign(record, head.turn_id, head.dispatch_id)
        follows = record.sequence == head.sequence + 1 and record.previous_link == head.last_link
        if not follows or head.state == STATE_TEXT[CLOSED]:
            raise conflict(record, "does not follow the last event of its child")
        self._events[record.event_id] = record
        head.sequence, head.last_link = record.sequence, record.link
        head.state = STATE_TEXT.get(record.name, head.state)
        head.last_at = microseconds(record.time)
        if record.name == CLOSED:
            head.final_status = final_status_of(record)
            self._links.append((record.child_id, record.link))

    def _attempt(self, record: AttemptRecorded) -> None:
        if self._is_there(record, self._row(ATTEMPT, (record.attempt_id,)), attempt_from):
            return
        self._refuse_foreign(record, record.turn_id, record.dispatch_id)
        self._run(NEW_ATTEMPT, attempt_row(record))

    def _settled(self, record: CallSettled) -> None:
        key = (record.turn_id, record.dispatch_id, record.outcome.call_id)
        there = self._row(OUTCOME, (*key, record.revision))
        if self._is_there(record, there, lambda row: from_body(row[0], CallSettled)):
            return
        self._refuse_foreign(record, record.turn_id, record.dispatch_id)
        if self._row(ANY_OUTCOME, key) is None:
            self._settled_calls[key[:2]] += 1
        self._run("INSERT INTO call_outcomes VALUES (?,?,?,?,?)", (*key, record.revision, body_of(record)))

    def _end(self, record: TurnEnded) -> None:
        there = self._row("SELECT body FROM turn_ends WHERE turn_id = ?", (record.turn_id,))
        if self._is_there(record, there, lambda row: from_body(row[0], TurnEnded)):
            return
        self._refuse_open_children(record)
        self._run(
            "INSERT INTO turn_ends VALUES (?,?,?)", (record.turn_id, microseconds(record.ended_at), body_of(record))
        )
        end_in_turns(self._connection, record)

    def _routing(self, record: RoutingRecord) -> None:
        there = self._row("SELECT body FROM routing_records WHERE turn_id = ?", (record.turn_id,))
        if self._is_there(record, there, lambda row: from_body(row[0], RoutingRecord)):
            return
        values = (record.turn_id, record.episode_id, microseconds(record.ended_at), int(bool(record.called)))
        self._run("INSERT INTO routing_records VALUES (?,?,?,?,?)", (*values, body_of(record)))

    # --- what they are held to

    def _is_there(self, record: Record, row: Found | None, read: Callable[[Found], Record]) -> bool:
        if row is not None and read(row) != record:
            raise conflict(record, "is on record with other contents")
        return row is not None

    def _refuse_after_end(self, record: Record, turn_id: TurnId) -> None:
        if self._row("SELECT 1 FROM turn_ends WHERE turn_id = ?", (turn_id,)):
            raise conflict(record, "came after the end of its turn")

    def _refuse_open_children(self, record: TurnEnded) -> None:
        self._write_events()
        if self._row("SELECT 1 FROM sub_agents WHERE turn_id = ? AND state <> 'closed' LIMIT 1", (record.turn_id,)):
            raise conflict(record, "came while a child of the turn is not closed")

    def _refuse_foreign(self, record: Record, turn_id: TurnId, dispatch_id: DispatchId) -> None:
        owner = self._owner(turn_id, dispatch_id)
        if owner is None or owner[0] != self._instance:
            raise conflict(record, "is of a dispatch that belongs to another sidecar, or is not on record")

    def _owner(self, turn_id: TurnId, dispatch_id: DispatchId) -> tuple[Any, ...] | None:
        """Return instance and epoch."""
        key = (turn_id, dispatch_id)
        if key not in self._owners:
            epoch, instance = max(self._connection.execute(OWNERS, key), default=(0, None))
            self._owners[key] = None if instance is None else (instance, epoch)
        return self._owners[key]

    def _head(self, event: ChildEvent) -> _Head:
        head = self._heads.get(event.child_id)
        if head is None:
            row = self._row(HEAD, (event.child_id,))
            if row is None:
                raise conflict(event, "is of a child that is not on record")
            head = self._heads[event.child_id] = _Head(*row)
        if head.turn_id != event.run_id:
            raise conflict(event, "is of a child that is not on record")
        return head

    # --- writing

    def _write_events(self) -> None:
        """Write the events so far, and where they leave their children and the running root."""
        if not self._events:
            return
        try:
            self._connection.executemany(NEW_EVENT, map(event_row, self._events.values()))
        except apsw.ConstraintError:
            raise RecordConflict("an event's id is on record with other contents") from None
        self._connection.executemany(
            "UPDATE sub_agents SET state = ?, final_status = ?, sequence = ?, last_link = ?, last_at = ?"
            " WHERE child_id = ?",
            [
                (head.state, head.final_status, head.sequence, head.last_link, head.last_at, child_id)
                for child_id, head in self._heads.items()
                if head.last_at is not None
            ],
        )
        self._events.clear()
        self._write_links()
        self._heads.clear()

    def _write_links(self) -> None:
        if not self._links:
            return
        row = self._row("SELECT closed_number, closed_root FROM instances WHERE instance = ?", (self._instance,))
        if row is None:
            raise LookupError("the instance that appends is not on record")
        number, root, rows = row[0], row[1], list[Row]()
        for child_id, last_link in self._links:
            number, root = number + 1, closed_root(root, child_id, last_link)
            rows.append((self._instance, number, child_id, last_link, root))
        self._connection.executemany(NEW_LINK, rows)
        self._run(
            "UPDATE instances SET closed_number = ?, closed_root = ? WHERE instance = ?", (number, root, self._instance)
        )
        self._links.clear()

    def _run(self, statement: str, values: Row) -> None:
        self._connection.execute(statement, values)

    def _row(self, statement: str, values: Row) -> tuple[Any, ...] | None:
        return self._connection.execute(statement, values).fetchone()


def conflict(record: Record, why: str) -> RecordConflict:
    """Return the refusal of a record."""
    return RecordConflict(f"{type(record).__name__} {why}", metadata={"record_id": record.record_id})
