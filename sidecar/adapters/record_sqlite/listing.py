"""Lists of turns and episodes. Runs in the reader's thread."""

from collections.abc import Sequence
from typing import Any, Final

import apsw

from sidecar.adapters.record_sqlite.rows import found, microseconds, time_of
from sidecar.core.dispatching.routing_record import distinct
from sidecar.core.executing.events import FAILED_STATUS
from sidecar.core.executing.stored_record import EpisodeRow, TurnQuery, TurnRow, TurnState
from sidecar.core.identifiers import EpisodeId, Principal, Slot, TurnId

TURNS: Final = "SELECT turn_id, episode_id, principal, state, began_at, ended_at FROM turns t"
NEWEST_FIRST: Final = "ORDER BY began_at DESC, turn_id DESC LIMIT ?"
OF_SLOT: Final = "EXISTS (SELECT 1 FROM sub_agents s WHERE s.slot = ? AND s.turn_id = t.turn_id)"
CHILDREN: Final = "SELECT slot, final_status FROM sub_agents WHERE turn_id = ? ORDER BY step_idx"
EPISODES: Final = "SELECT episode_id, principal FROM episodes ORDER BY last_at DESC, episode_id DESC LIMIT ?"
OF_EPISODE: Final = "SELECT count(*), min(began_at), max(began_at) FROM turns WHERE episode_id = ? AND principal = ?"
SLOTS: Final = """
SELECT s.slot FROM turns t JOIN sub_agents s ON s.turn_id = t.turn_id
  WHERE t.episode_id = ? AND t.principal = ?
  GROUP BY s.slot ORDER BY min(t.began_at), min(t.turn_id), min(s.step_idx)
"""


def turn_rows(connection: apsw.Connection, query: TurnQuery) -> Sequence[TurnRow]:
    """Return a list of turns, newest first."""
    conditions: list[tuple[str, tuple[Any, ...]]] = []
    if query.episode_id is not None:
        conditions.append(("episode_id = ?", (query.episode_id,)))
    if query.state is not None:
        conditions.append(("state = ?", (query.state.value,)))
    if query.slot is not None:
        conditions.append((OF_SLOT, (query.slot,)))
    if query.before is not None:
        conditions.append(("(began_at, turn_id) < (?, ?)", (microseconds(query.before[0]), query.before[1])))
    where = " WHERE " + " AND ".join(text for text, _ in conditions) if conditions else ""
    values = [value for _, given in conditions for value in given]
    rows = found(connection, f"{TURNS}{where} {NEWEST_FIRST}", (*values, max(query.limit, 0)))
    return [_turn_row(connection, row) for row in rows]


def episode_rows(connection: apsw.Connection, limit: int) -> Sequence[EpisodeRow]:
    """Return the episodes used last, newest first."""
    rows = found(connection, EPISODES, (max(limit, 0),))
    return [_episode_row(connection, episode_id, principal) for episode_id, principal in rows]


def _turn_row(connection: apsw.Connection, row: tuple[Any, ...]) -> TurnRow:
    turn_id, episode_id, principal, state, began_at, ended_at = row
    children = found(connection, CHILDREN, (turn_id,))
    return TurnRow(
        turn_id=TurnId(turn_id),
        episode_id=EpisodeId(episode_id),
        principal=Principal(principal),
        state=TurnState(state),
        began_at=time_of(began_at),
        ended_at=None if ended_at is None else time_of(ended_at),
        slots=distinct([Slot(slot) for slot, _ in children]),
        children=len(children),
        failed=sum(1 for _, final_status in children if final_status == FAILED_STATUS),
    )


def _episode_row(connection: apsw.Connection, episode_id: str, principal: str) -> EpisodeRow:
    key = (episode_id, principal)
    turns, first_at, last_at = found(connection, OF_EPISODE, key)[0]
    slots = tuple(Slot(row[0]) for row in found(connection, SLOTS, key))
    return EpisodeRow(EpisodeId(episode_id), Principal(principal), turns, time_of(first_at), time_of(last_at), slots)
