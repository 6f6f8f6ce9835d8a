"""What verifying reads, and what retention removes."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

import apsw
import msgspec

from sidecar.adapters.record_sqlite.rows import FACT_COLUMNS, day_of, fact_from, found, microseconds
from sidecar.core.decoding import from_json
from sidecar.core.errors import RecordConflict
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.appends import RootState
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.markers import FactsRemoved

ROOTS: Final = """
SELECT i.instance, r.day, r.number, r.root FROM roots r JOIN instances i ON i.number = r.instance
  ORDER BY i.instance, r.day
"""
UNDER: Final = f"""
SELECT f.number, t.turn_id, {FACT_COLUMNS} FROM facts f
  JOIN turns t ON t.number = f.turn JOIN instances i ON i.number = f.instance
  WHERE f.number > ? AND i.instance = ? AND t.day = ? ORDER BY f.number LIMIT ?
"""  # noqa: S608 - names only
YOUNG: Final = "SELECT DISTINCT day FROM turns WHERE ended_at IS NULL OR ended_at >= ?"
GONE: Final = "turn IN (SELECT number FROM turns WHERE day = ?)"
REACHED: Final = """
UPDATE instances SET reached = max(reached, (SELECT coalesce(max(number), 0) FROM facts))
  WHERE number = (SELECT max(number) FROM instances)
"""
"""So that no number is given twice, should the newest fact be among those that go."""
OLD_FRAMES: Final = "DELETE FROM attempt_frames WHERE turn IN (SELECT number FROM turns WHERE ended_at < ?)"
PAGE: Final = 500


def roots(connection: apsw.Connection) -> Sequence[RootState]:
    """Return where each running root stands."""
    rows = found(connection, ROOTS)
    return [RootState(InstanceId(who), day_of(day), number, root.hex()) for who, day, number, root in rows]


def page_under(
    connection: apsw.Connection, instance: InstanceId, day: date, after: int
) -> Sequence[tuple[int, Stored]]:
    """Return the next facts that a root covers, each with its number."""
    rows = found(connection, UNDER, (after, instance, day.isoformat(), PAGE))
    return [(number, fact_from(TurnId(turn_id), tuple(row))) for number, turn_id, *row in rows]


def turn_page(connection: apsw.Connection, after: int) -> Sequence[tuple[int, TurnId]]:
    """Return the next turns, each with its number."""
    rows = found(
        connection, "SELECT number, turn_id FROM turns WHERE number > ? ORDER BY number LIMIT ?", (after, PAGE)
    )
    return [(number, TurnId(turn_id)) for number, turn_id in rows]


def stored_markers(connection: apsw.Connection) -> Sequence[FactsRemoved]:
    """Return every marker."""
    rows = found(connection, "SELECT body FROM markers ORDER BY instance, day")
    return [from_json(body, FactsRemoved) for (body,) in rows]


def removable(connection: apsw.Connection, ended_before: datetime) -> Sequence[RootState]:
    """Return the roots of the days on which each turn has ended, before then."""
    young = {day_of(day) for (day,) in found(connection, YOUNG, (microseconds(ended_before),))}
    return [each for each in roots(connection) if each.day not in young]


def remove(connection: apsw.Connection, markers: Sequence[FactsRemoved]) -> int:
    """Keep the markers, and remove the days that they name; returns how many turns are gone. Raises `RecordConflict`."""
    days = {marker.partition for marker in markers}
    given = {(each.instance, each.partition): (each.number, each.root) for each in markers}
    there = {(each.instance, each.day): (each.number, each.root) for each in roots(connection) if each.day in days}
    if given != there:
        raise RecordConflict("the markers do not fit the running roots", metadata={"days": str(len(days))})
    connection.execute("INSERT INTO purging VALUES ('retention')")
    for marker in markers:
        row = (marker.instance, marker.partition.isoformat(), msgspec.json.encode(marker).decode())
        connection.execute("INSERT INTO markers VALUES (?,?,?)", row)
    removed = 0
    connection.execute(REACHED)
    for day in sorted(days):
        of_day = (day.isoformat(),)
        connection.execute(f"DELETE FROM attempt_frames WHERE {GONE}", of_day)  # noqa: S608 - names only
        connection.execute(f"DELETE FROM facts WHERE {GONE}", of_day)  # noqa: S608 - names only
        connection.execute("DELETE FROM turns WHERE day = ?", of_day)
        removed += connection.changes()
        connection.execute("DELETE FROM roots WHERE day = ?", of_day)
    connection.execute("DELETE FROM purging")
    return removed


def remove_frames(connection: apsw.Connection, ended_before: datetime) -> int:
    """Remove what runners sent in turns that ended before; returns how many attempts."""
    connection.execute("INSERT INTO purging VALUES ('retention of frames')")
    connection.execute(OLD_FRAMES, (microseconds(ended_before),))
    removed = connection.changes()
    connection.execute("DELETE FROM purging")
    return removed
