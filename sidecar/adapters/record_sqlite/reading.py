"""Reads the SQLite journal. Each function runs in one read transaction, so it sees one state of the database."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import apsw

from sidecar.adapters.record_sqlite.rows import FACT_COLUMNS, WITH_FRAMES, fact_from, first, microseconds, rows_of
from sidecar.core.identifiers import AttemptId, DispatchId, EpisodeId, InstanceId, TurnId
from sidecar.core.journal.encoding import UnreadableFact
from sidecar.core.journal.entries import AttemptFrames, Stored
from sidecar.core.journal.turn_state import state_of

FACTS: Final = f"""
SELECT {FACT_COLUMNS} FROM turns t JOIN facts f ON f.turn = t.number JOIN instances i ON i.number = f.instance
  WHERE t.turn_id = ? ORDER BY f.version
"""  # noqa: S608 - names only
FRAMES: Final = f"""
SELECT a.attempt_id, a.step, a.number, a.frames FROM {WITH_FRAMES}
  WHERE t.turn_id = ? ORDER BY a.step, a.number, a.place
"""  # noqa: S608 - names only
LAST_CALLED: Final = """
SELECT turn_id FROM turns WHERE episode_id = ? AND called = 1 ORDER BY ended_at DESC, turn_id DESC LIMIT 1
"""
OVERDUE: Final = """
SELECT turn_id FROM turns WHERE ended_at IS NULL AND expires_at < ? ORDER BY expires_at, number LIMIT ?
"""
OPEN: Final = """
SELECT number, turn_id FROM turns INDEXED BY turns_open
  WHERE ended_at IS NULL AND number > ? AND number <= ? ORDER BY number LIMIT ?
"""
NEWEST_OPEN: Final = """
SELECT turn_id FROM turns INDEXED BY turns_open
  WHERE ended_at IS NULL AND number < coalesce((SELECT number FROM turns WHERE turn_id = ?), 1 << 62)
  ORDER BY number DESC LIMIT ?
"""
"""`INDEXED BY` makes SQLite read only the open turns and sort them. Otherwise it would read all turns by number.

`1 << 62` is above each number, so that without a turn, or with an unknown one, the list begins at the newest turn.
"""


def turn_facts(connection: apsw.Connection, turn_id: TurnId) -> list[Stored]:
    """Return the facts of a turn in order."""
    return [fact_from(turn_id, row) for row in rows_of(connection, FACTS, (turn_id,))]


def turn_frames(connection: apsw.Connection, turn_id: TurnId) -> list[AttemptFrames]:
    """Return the recorded runner frames of a turn."""
    by_attempt: dict[str, AttemptFrames] = {}
    for attempt, step, number, frames in rows_of(connection, FRAMES, (turn_id,)):
        # A repeated append may have stored an attempt twice. The first row is used.
        by_attempt.setdefault(attempt, AttemptFrames(turn_id, AttemptId(attempt), step, number, frames))
    return list(by_attempt.values())


def last_called(connection: apsw.Connection, episode_id: EpisodeId) -> TurnId | None:
    """Return the turn of an episode that ended last, of those that called a sub-agent; None: there is none."""
    row = first(rows_of(connection, LAST_CALLED, (episode_id,)))
    return None if row is None else TurnId(row[0])


def overdue(connection: apsw.Connection, now: datetime, limit: int) -> Sequence[TurnId]:
    """Return open turns whose deadline has passed, the oldest deadline first, at most `limit`."""
    return [TurnId(row[0]) for row in rows_of(connection, OVERDUE, (microseconds(now), limit))]


def open_turns(connection: apsw.Connection, after: int, up_to: int, limit: int) -> Sequence[tuple[int, TurnId]]:
    """Return open turns with row numbers above `after` and up to `up_to`, each with its number, in order."""
    return [(number, TurnId(turn_id)) for number, turn_id in rows_of(connection, OPEN, (after, up_to, limit))]


def newest_open(connection: apsw.Connection, limit: int, before: TurnId | None) -> Sequence[TurnId]:
    """Return open turns, newest first, at most `limit`; with `before`, only those that are older than this turn."""
    return [TurnId(turn_id) for (turn_id,) in rows_of(connection, NEWEST_OPEN, (before, limit))]


def unsettled_of_others(
    connection: apsw.Connection, turn_id: TurnId, instance: InstanceId
) -> Sequence[tuple[TurnId, DispatchId | None]]:
    """Return the dispatches of a turn that are neither settled nor owned by `instance`, each with the id of the turn.

    The owner of such a dispatch is dead, because a SQLite record has one writer at a time. For a turn whose facts
    cannot be read, None is returned in place of its dispatches.
    """
    # Decided from the facts, because the table of turns has no column for open dispatches.
    try:
        head = state_of(turn_id, turn_facts(connection, turn_id)).head
    except UnreadableFact:
        # Reported and not skipped: the turn may have calls that a client waits for.
        return [(turn_id, None)]
    return [(turn_id, each) for each in head.unsettled if head.dispatches[each].owner != instance]
