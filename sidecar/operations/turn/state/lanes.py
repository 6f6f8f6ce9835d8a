"""Lets the calls of a turn wait for their lane, and wakes them in order."""

from collections.abc import Collection, Mapping, Sequence

from sidecar.core.dispatching.lanes import Lanes, Waiting
from sidecar.operations.first_result import Ending
from subagents_errors import CallFailure


class TurnLanes:
    """`core.dispatching.lanes` with somebody who waits.

    Attributes:
        running: the calls whose turn it is, by key.
    """

    def __init__(self) -> None:
        self._lanes = Lanes()
        self.running: Mapping[str, Waiting] = self._lanes.running
        self._turns: dict[str, Ending[CallFailure | None]] = {}

    @property
    def occupied(self) -> int:
        """Calls that wait or run: what the cap counts."""
        return self._lanes.occupied

    def enter(self, calls: Sequence[Waiting]) -> None:
        """Let calls wait behind those that already do; those with a free lane have their turn at once."""
        self._lanes.enter(calls)
        self._start_ready()

    def turn_of(self, key: str, stop: Ending[CallFailure]) -> Ending[CallFailure | None]:
        """Return what is settled once it is the call's turn (None), or once it is stopped (why)."""
        turn: Ending[CallFailure | None] = Ending()
        if key in self.running:
            turn.settle(None)
        else:
            self._turns[key] = turn
            stop.on_settled(turn.settle)
        return turn

    def start_beside(self, call: Waiting, lenders: Collection[str]) -> bool:
        """Let a delegation run now, or say that it cannot; see `Lanes.start_beside`."""
        return self._lanes.start_beside(call, lenders)

    def leave(self, key: str) -> None:
        """The call has ended or given up; whoever waited for its lane has his turn now."""
        self._lanes.leave(key)
        self._turns.pop(key, None)
        if self._lanes.waiting:
            self._start_ready()

    def _start_ready(self) -> None:
        for key in self._lanes.start_ready():
            turn = self._turns.pop(key, None)
            if turn is not None:
                turn.settle(None)
