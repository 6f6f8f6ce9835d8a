"""Keeps the rows of turns and episodes, which lists are read from, in step with what is appended."""

from typing import Final

import apsw

from sidecar.adapters.record_sqlite.rows import microseconds
from sidecar.core.executing.records import DispatchOpened, TurnEnded
from sidecar.core.executing.stored_record import TurnState

PARENT_LOST: Final = "parent_lost"
"""Why a turn was closed that nobody ended."""

EPISODE: Final = """
INSERT INTO episodes (episode_id, principal, last_at)
  SELECT episode_id, principal, began_at FROM turns WHERE episode_id = ? AND principal = ?
  ORDER BY began_at DESC LIMIT 1
  ON CONFLICT (episode_id, principal) DO UPDATE SET last_at = excluded.last_at
"""
BEGAN: Final = "SELECT began_at FROM turns WHERE turn_id = ?"
NEW_IN_EPISODE: Final = """
INSERT INTO episodes (episode_id, principal, last_at) VALUES (?, ?, ?)
  ON CONFLICT (episode_id, principal) DO UPDATE SET last_at = max(excluded.last_at, last_at)
"""
OPENED: Final = """
INSERT INTO turns (turn_id, episode_id, principal, state, began_at, expires_at) VALUES (?, ?, ?, 'open', ?, ?)
  ON CONFLICT (turn_id) DO UPDATE SET
    episode_id = iif(excluded.began_at < began_at, excluded.episode_id, episode_id),
    principal = iif(excluded.began_at < began_at, excluded.principal, principal),
    expires_at = min(excluded.expires_at, expires_at),
    began_at = min(excluded.began_at, began_at)
"""
ENDED: Final = """
INSERT INTO turns (turn_id, episode_id, principal, state, began_at, ended_at) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (turn_id) DO UPDATE SET state = excluded.state, ended_at = excluded.ended_at
"""


def dispatch_in_turns(connection: apsw.Connection, opened: DispatchOpened) -> None:
    """Count a dispatch in: its turn began with the first one, and expires with whichever expires first."""
    times = (microseconds(opened.opened_at), microseconds(opened.turn_expires_at))
    began = connection.execute(BEGAN, (opened.turn_id,)).fetchone()
    connection.execute(OPENED, (opened.turn_id, opened.episode_id, opened.principal, *times))
    if began is None:
        connection.execute(NEW_IN_EPISODE, (opened.episode_id, opened.principal, times[0]))
    elif times[0] < began[0]:  # looks at all turns: what nobody does who appends in the order of time
        connection.execute(EPISODE, (opened.episode_id, opened.principal))


def end_in_turns(connection: apsw.Connection, ended: TurnEnded) -> None:
    """Count the end of a turn in; one that called nobody begins with it."""
    state = TurnState.LOST if ended.close_reason == PARENT_LOST else TurnState.ENDED
    at = microseconds(ended.ended_at)
    began = connection.execute(BEGAN, (ended.turn_id,)).fetchone()
    connection.execute(ENDED, (ended.turn_id, ended.episode_id, ended.principal, state.value, at, at))
    if began is None:
        connection.execute(NEW_IN_EPISODE, (ended.episode_id, ended.principal, at))


def correct_episode(connection: apsw.Connection, episode_id: str, principal: str) -> None:
    """Count again after turns of an episode were removed."""
    connection.execute("DELETE FROM episodes WHERE episode_id = ? AND principal = ?", (episode_id, principal))
    connection.execute(EPISODE, (episode_id, principal))
