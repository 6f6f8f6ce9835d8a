"""Reads what running turns ask for. Runs in the reader's thread, each function on one state of the database."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import apsw

from sidecar.adapters.record_sqlite.rows import (
    ATTEMPT_COLUMNS,
    CHILD_COLUMNS,
    EVENT_COLUMNS,
    attempt_from,
    child_from,
    event_from,
    found,
    from_body,
    microseconds,
)
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, CallSettled, DispatchOpened, TurnEnded
from sidecar.core.executing.stored_record import StoredChild, StoredDispatch, StoredTurn
from sidecar.core.identifiers import ChildId, DispatchId, EpisodeId, InstanceId, Slot, TurnId

EVENTS: Final = f"SELECT {EVENT_COLUMNS} FROM sub_agent_events WHERE child_id = ? ORDER BY sequence"  # noqa: S608 - names only
CHILDREN: Final = f"SELECT {CHILD_COLUMNS} FROM sub_agents WHERE turn_id = ? ORDER BY number"  # noqa: S608 - names only
ATTEMPTS: Final = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE turn_id = ? ORDER BY child_id, number"  # noqa: S608 - names only
DISPATCHES: Final = """
SELECT body, dispatch_id,
    (SELECT instance FROM dispatch_owners o WHERE o.turn_id = d.turn_id AND o.dispatch_id = d.dispatch_id
     ORDER BY epoch DESC LIMIT 1),
    (SELECT max(epoch) FROM dispatch_owners o WHERE o.turn_id = d.turn_id AND o.dispatch_id = d.dispatch_id)
  FROM dispatches d WHERE turn_id = ? ORDER BY number
"""
OUTCOMES: Final = """
SELECT body FROM call_outcomes WHERE turn_id = ? AND dispatch_id = ? ORDER BY call_id, revision
"""
LEFT_BEHIND: Final = """
SELECT d.turn_id, d.dispatch_id FROM dispatches d
  WHERE d.unsettled <> 0
    AND NOT EXISTS (SELECT 1 FROM turn_ends e WHERE e.turn_id = d.turn_id)
    AND ? <> (SELECT instance FROM dispatch_owners o WHERE o.turn_id = d.turn_id AND o.dispatch_id = d.dispatch_id
              ORDER BY epoch DESC LIMIT 1)
  ORDER BY d.opened_at, d.number LIMIT ?
"""
LAST_CALLED: Final = """
SELECT body FROM routing_records WHERE episode_id = ? AND called = 1 ORDER BY ended_at DESC, turn_id DESC LIMIT 1
"""
OVERDUE: Final = """
SELECT turn_id FROM turns WHERE ended_at IS NULL AND expires_at < ? ORDER BY expires_at, began_at LIMIT ?
"""


def stored_turn(connection: apsw.Connection, turn_id: TurnId, instance: InstanceId) -> StoredTurn | None:
    """Return all of a turn, as `instance` sees it."""
    dispatches = tuple(_dispatches(connection, turn_id, instance))
    rows = found(connection, CHILDREN, (turn_id,))
    children = tuple(StoredChild(child_from(row), tuple(stored_events(connection, ChildId(row[0])))) for row in rows)
    ended = connection.execute("SELECT body FROM turn_ends WHERE turn_id = ?", (turn_id,)).get
    routing = stored_routing(connection, turn_id)
    if not dispatches and not children and ended is None and routing is None:
        return None
    return StoredTurn(turn_id, dispatches, children, ended and from_body(ended, TurnEnded), routing)


def stored_events(connection: apsw.Connection, child_id: ChildId) -> Sequence[ChildEvent]:
    """Return the events of a child."""
    return [event_from(row) for row in found(connection, EVENTS, (child_id,))]


def stored_routing(connection: apsw.Connection, turn_id: TurnId) -> RoutingRecord | None:
    """Return the routing decision of a turn."""
    body = connection.execute("SELECT body FROM routing_records WHERE turn_id = ?", (turn_id,)).get
    return None if body is None else from_body(body, RoutingRecord)


def last_called(connection: apsw.Connection, episode_id: EpisodeId) -> tuple[Slot, ...]:
    """Return the slots of the episode's turn that ended last and called any."""
    body = connection.execute(LAST_CALLED, (episode_id,)).get
    return () if body is None else from_body(body, RoutingRecord).called


def left_behind(connection: apsw.Connection, instance: InstanceId, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
    """Return dispatches that are not settled, and not `instance`'s: nobody else is alive."""
    rows = found(connection, LEFT_BEHIND, (instance, limit))
    return [(TurnId(turn_id), DispatchId(dispatch_id)) for turn_id, dispatch_id in rows]


def overdue(connection: apsw.Connection, now: datetime, limit: int) -> Sequence[TurnId]:
    """Return turns whose parent is lost."""
    return [TurnId(row[0]) for row in found(connection, OVERDUE, (microseconds(now), limit))]


def attempts(connection: apsw.Connection, turn_id: TurnId) -> Sequence[AttemptRecorded]:
    """Return what the runners sent in a turn."""
    return [attempt_from(row) for row in found(connection, ATTEMPTS, (turn_id,))]


def _dispatches(connection: apsw.Connection, turn_id: TurnId, instance: InstanceId) -> Iterator[StoredDispatch]:
    for body, dispatch_id, owner, epoch in found(connection, DISPATCHES, (turn_id,)):
        settled = [
            from_body(row[0], CallSettled).outcome for row in found(connection, OUTCOMES, (turn_id, dispatch_id))
        ]
        standing = {outcome.call_id: outcome for outcome in settled}  # the last revision of each
        opened, alive = from_body(body, DispatchOpened), owner == instance
        yield StoredDispatch(opened, InstanceId(owner), epoch, alive, tuple(standing.values()))
