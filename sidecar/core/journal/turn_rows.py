"""The line of a turn in lists, and the line of an episode, derived from facts."""

from collections.abc import Iterable
from typing import Final

from sidecar.core.dispatching.routing_record import distinct
from sidecar.core.executing.events import CLOSED, FAILED_STATUS
from sidecar.core.executing.stored_record import EpisodeRow, TurnQuery, TurnRow
from sidecar.core.executing.stored_record import TurnState as Stands
from sidecar.core.journal.child_events import ChildReading
from sidecar.core.journal.turn_state import TurnState

PARENT_LOST: Final = "parent_lost"
"""Close reason of a turn that nobody ended."""


def turn_row(state: TurnState) -> TurnRow | None:
    """Return the line of a turn; None before its first fact."""
    claims, ended = state.reading.claims, state.ended
    opened = [each.opened.opened_at for each in state.reading.dispatches.values()]
    if claims is None or not (opened or ended):
        return None
    children = sorted(state.reading.children.values(), key=lambda child: child.opened.step_idx)
    return TurnRow(
        turn_id=state.turn_id,
        episode_id=claims.episode_id,
        principal=claims.principal,
        state=Stands.OPEN if ended is None else Stands.LOST if ended.close_reason == PARENT_LOST else Stands.ENDED,
        began_at=min(opened) if opened else ended.ended_at if ended else claims.bound_at,
        ended_at=ended.ended_at if ended else None,
        slots=distinct([child.opened.slot for child in children]),
        children=len(children),
        failed=sum(1 for child in children if _failed(child)),
    )


def _failed(child: ChildReading) -> bool:
    last = child.events[-1]
    return last.name == CLOSED and last.details().get("final_status") == FAILED_STATUS


def fits(row: TurnRow, query: TurnQuery) -> bool:
    """Say whether a line is one of those that are asked for."""
    return (
        query.episode_id in {None, row.episode_id}
        and query.state in {None, row.state}
        and (query.slot is None or query.slot in row.slots)
        and (query.before is None or (row.began_at, row.turn_id) < query.before)
    )


def episode_rows(rows: Iterable[TurnRow], limit: int) -> list[EpisodeRow]:
    """Return the episodes that were used last, newest first, from the lines of all turns."""
    turns: dict[tuple[str, str], list[TurnRow]] = {}
    for row in rows:
        turns.setdefault((row.episode_id, row.principal), []).append(row)
    found = [_episode(sorted(each, key=lambda row: (row.began_at, row.turn_id))) for each in turns.values()]
    return sorted(found, key=lambda row: (row.last_at, row.episode_id), reverse=True)[:limit]


def _episode(rows: list[TurnRow]) -> EpisodeRow:
    slots = distinct([slot for row in rows for slot in row.slots])
    return EpisodeRow(rows[0].episode_id, rows[0].principal, len(rows), rows[0].began_at, rows[-1].began_at, slots)
