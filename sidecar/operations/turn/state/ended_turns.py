"""Ended turns: what is kept of them gets less with their age, so that memory does not grow with their number."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sidecar.core.identifiers import TurnId

if TYPE_CHECKING:
    from sidecar.operations.turn.state.open_turns import Turn

SLIM_FOR_EACH_WHOLE: Final = 4
"""Turns of which only the end is kept, for each that is kept whole; of older ones the record knows."""


class EndedTurns:
    """The turns that ended last.

    Args:
        whole: how many are kept with their dispatches.
    """

    def __init__(self, whole: int) -> None:
        """Begin with none."""
        self._most_whole = whole
        self._whole: dict[TurnId, Turn] = {}
        self._slim: dict[TurnId, Turn] = {}

    def add(self, turn: "Turn") -> Iterator["Turn"]:
        """Keep a turn, if it is not kept; yield those that are too old to be kept at all."""
        if turn.turn_id not in self._slim:
            self._whole.setdefault(turn.turn_id, turn)
        while len(self._whole) > self._most_whole:
            older = self._whole.pop(next(iter(self._whole)))
            older.slim()
            self._slim[older.turn_id] = older
        while len(self._slim) > self._most_whole * SLIM_FOR_EACH_WHOLE:
            yield self._slim.pop(next(iter(self._slim)))

    def drop(self, turn: "Turn") -> None:
        """Keep a turn no longer."""
        self._whole.pop(turn.turn_id, None)
        self._slim.pop(turn.turn_id, None)
