"""What verifying reads, and what retention removes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import apsw

from sidecar.adapters.record_sqlite.projecting import correct_episode
from sidecar.adapters.record_sqlite.reading import stored_events
from sidecar.adapters.record_sqlite.rows import (
    CHILD_COLUMNS,
    Found,
    body_of,
    child_from,
    found,
    from_body,
    microseconds,
)
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.stored_record import ClosedChild, ClosedState, RetentionMarker, StoredChild
from sidecar.core.identifiers import ChildId, InstanceId

LINKS: Final = """
SELECT number, child_id, last_link, root FROM closed_children WHERE instance = ? AND number > ? ORDER BY number LIMIT ?
"""
CHILDREN: Final = f"SELECT {CHILD_COLUMNS} FROM sub_agents WHERE child_id > ? ORDER BY child_id LIMIT ?"  # noqa: S608 - names only
TOO_YOUNG: Final = """
SELECT c.number FROM closed_children c
  JOIN sub_agents s ON s.child_id = c.child_id
  LEFT JOIN turn_ends e ON e.turn_id = s.turn_id
  WHERE c.instance = ? AND c.number > ? AND c.number <= ?
    AND (e.ended_at IS NULL OR e.ended_at >= ?
         OR EXISTS (SELECT 1 FROM sub_agents o WHERE o.turn_id = s.turn_id AND o.last_at >= ?))
  ORDER BY c.number LIMIT 1
"""
COVERED: Final = """
SELECT s.child_id, s.turn_id FROM closed_children c JOIN sub_agents s ON s.child_id = c.child_id
  WHERE c.instance = ? AND c.number <= ?
"""
CHILDLESS: Final = """
SELECT turn_id FROM turns
  WHERE ended_at < ? AND NOT EXISTS (SELECT 1 FROM sub_agents s WHERE s.turn_id = turns.turn_id)
  ORDER BY ended_at LIMIT ?
"""
OF_TURN: Final = (
    "attempts",
    "call_outcomes",
    "dispatch_owners",
    "dispatches",
    "turn_ends",
    "routing_records",
)  # fmt: skip - in the order in which they refer to each other
PAGE: Final = 500


def closed_states(connection: apsw.Connection) -> Sequence[ClosedState]:
    """Return where the running root of every instance stands that has closed any child."""
    rows = found(
        connection,
        "SELECT instance, closed_number, closed_root FROM instances WHERE closed_number > 0 ORDER BY instance",
    )
    return [ClosedState(InstanceId(instance), number, root) for instance, number, root in rows]


def closed_page(connection: apsw.Connection, instance: InstanceId, after: int) -> Sequence[ClosedChild]:
    """Return the next links of a running root."""
    rows = found(connection, LINKS, (instance, after, PAGE))
    return [ClosedChild(instance, number, ChildId(child_id), link, root) for number, child_id, link, root in rows]


def child_page(connection: apsw.Connection, after: str) -> Sequence[StoredChild]:
    """Return the next children by id, with their events."""
    rows = found(connection, CHILDREN, (after, PAGE))
    return [StoredChild(child_from(row), tuple(stored_events(connection, ChildId(row[0])))) for row in rows]


def stored_markers(connection: apsw.Connection) -> Sequence[RetentionMarker]:
    """Return every marker."""
    rows = connection.execute("SELECT body FROM retention_markers ORDER BY instance, number")
    return [from_body(row[0], RetentionMarker) for row in rows]


def purgeable_page(
    connection: apsw.Connection, state: ClosedState, closed_before: datetime
) -> tuple[ClosedState | None, bool]:
    """Look at the next links of an instance, after those of `state`.

    Returns:
        Up to where they are old enough, if any of them is; and whether to look at the next ones, too.
    """
    page = closed_page(connection, state.instance, state.number)
    if not page:
        return None, False
    before = microseconds(closed_before)
    young = connection.execute(TOO_YOUNG, (state.instance, state.number, page[-1].number, before, before)).get
    old = page if young is None else [link for link in page if link.number < young]
    last = ClosedState(state.instance, old[-1].number, old[-1].root) if old else None
    return last, young is None


def purge(connection: apsw.Connection, markers: Sequence[RetentionMarker]) -> int:
    """Keep the markers, and remove what they cover; return how many children are gone. Raises `RecordConflict`."""
    connection.execute("INSERT INTO purging VALUES ('retention')")
    children: list[Found] = []
    for marker in markers:
        _keep(connection, marker)
        children += found(connection, COVERED, (marker.instance, marker.number))
    for child_id, _ in children:
        connection.execute("DELETE FROM sub_agent_events WHERE child_id = ?", (child_id,))
        connection.execute("DELETE FROM attempts WHERE child_id = ?", (child_id,))
        connection.execute("DELETE FROM sub_agents WHERE child_id = ?", (child_id,))
    for turn_id in dict.fromkeys(turn_id for _, turn_id in children):
        if connection.execute("SELECT 1 FROM sub_agents WHERE turn_id = ? LIMIT 1", (turn_id,)).get is None:
            _forget(connection, turn_id)
    for marker in markers:
        connection.execute(
            "DELETE FROM closed_children WHERE instance = ? AND number <= ?", (marker.instance, marker.number)
        )
    connection.execute("DELETE FROM purging")
    return len(children)


def purge_childless(connection: apsw.Connection, before: datetime) -> int:
    """Remove the oldest turns that ended before and have no child; return how many."""
    turns = found(connection, CHILDLESS, (microseconds(before), PAGE))
    connection.execute("INSERT INTO purging VALUES ('retention of turns')")
    for (turn_id,) in turns:
        _forget(connection, turn_id)
    connection.execute("DELETE FROM purging")
    return len(turns)


def purge_frames(connection: apsw.Connection, before: datetime) -> int:
    """Remove what runners sent in turns that ended before; return how many attempts."""
    connection.execute("INSERT INTO purging VALUES ('retention of frames')")
    connection.execute(
        "DELETE FROM attempts WHERE turn_id IN (SELECT turn_id FROM turns WHERE ended_at < ?)", (microseconds(before),)
    )
    removed = connection.changes()
    connection.execute("DELETE FROM purging")
    return removed


def _keep(connection: apsw.Connection, marker: RetentionMarker) -> None:
    key = (marker.instance, marker.number)
    root = connection.execute("SELECT root FROM closed_children WHERE instance = ? AND number = ?", key).get
    if root is not None and root == marker.root:
        connection.execute("INSERT INTO retention_markers VALUES (?,?,?,?)", (*key, marker.root, body_of(marker)))
        return
    kept = connection.execute("SELECT body FROM retention_markers WHERE instance = ? AND number = ?", key).get
    if kept is None or from_body(kept, RetentionMarker) != marker:
        raise RecordConflict("the marker does not fit the running root", metadata={"instance": marker.instance})


def _forget(connection: apsw.Connection, turn_id: str) -> None:
    for table in OF_TURN:
        connection.execute(f"DELETE FROM {table} WHERE turn_id = ?", (turn_id,))  # noqa: S608 - names of our own
    of_turn = connection.execute("SELECT episode_id, principal FROM turns WHERE turn_id = ?", (turn_id,)).fetchone()
    if of_turn is not None:
        connection.execute("DELETE FROM turns WHERE turn_id = ?", (turn_id,))
        correct_episode(connection, *of_turn)
