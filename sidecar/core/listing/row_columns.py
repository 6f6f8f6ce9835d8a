"""The columns of a turn's row in databases, in order.

SQLite and PostgreSQL both write and read rows with this. Lists are JSON text; times are in a form that the database
compares.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.stored_record import TurnRow, TurnState
from sidecar.core.identifiers import DefinitionId, EpisodeId, Principal, Slot, TurnId
from subagents_errors import CallFailure

# Both functions below use the columns by position; a new one also needs a migration of both databases.
COLUMNS: Final = (
    "turn_id, episode_id, principal, state, began_at, ended_at, slots, children, failed, "
    "outcomes, definitions, reasons, calls"
)

Time = TypeVar("Time")


def columns_of(turn_id: TurnId, row: TurnRow | None, time: Callable[[datetime], Time], never: Time) -> tuple[Any, ...]:
    """Return the values of a row; for a turn that lists omit, placeholder values.

    Args:
        turn_id: of the row.
        row: as lists show it; None if lists omit the turn.
        time: converts a time to the database's form.
        never: any time, for an omitted turn.
    """
    # A row is written nevertheless: its version tells the projector that the turn is up to date.
    if row is None:
        return (turn_id, "", "", "", never, None, "[]", 0, 0, "[]", "[]", "[]", "[]")
    slots, *labels = [
        msgspec.json.encode(each).decode()
        for each in (row.slots, row.outcomes, row.definitions, row.reasons, row.calls)
    ]
    times = time(row.began_at), None if row.ended_at is None else time(row.ended_at)
    return (turn_id, row.episode_id, row.principal, row.state.value, *times, slots, row.children, row.failed, *labels)


def row_from(values: tuple[Any, ...], time: Callable[[Any], datetime]) -> TurnRow:
    """Return the stored row.

    Args:
        values: of `COLUMNS`.
        time: converts a time from the database's form.
    """
    turn_id, episode_id, principal, state, began_at, ended_at, slots, children, failed, *labels = values
    outcomes, definitions, reasons, calls = labels
    return TurnRow(
        turn_id=TurnId(turn_id),
        episode_id=EpisodeId(episode_id),
        principal=Principal(principal),
        state=TurnState(state),
        began_at=time(began_at),
        ended_at=None if ended_at is None else time(ended_at),
        slots=slots_from(slots),
        children=children,
        failed=failed,
        outcomes=from_json(outcomes, tuple[Outcome, ...]),
        definitions=from_json(definitions, tuple[DefinitionId, ...]),
        reasons=from_json(reasons, tuple[CallFailure, ...]),
        calls=from_json(calls, tuple[int, ...]),
    )


def slots_from(text: str) -> tuple[Slot, ...]:
    """Return the slots in a column."""
    return from_json(text, tuple[Slot, ...])
