"""Lets the calls of a turn wait for their lane, and wakes them in order."""

from collections.abc import Collection, Sequence

from sidecar.core.dispatching.lanes import Lanes, Waiting
from sidecar.operations.first_result import Ending
from subagents_errors import CallFailure


class TurnLanes:
    """`core.dispatching.lanes` with somebody who waits."""

    def __init__(self) -> None:
        self._lanes = Lanes()
        self._turns: dict[str, Ending[CallFailure | None]] = {}

    @property
    def occupied(self) -> int:
        """Calls that wait or run: what the cap counts."""
        return self._lanes.occupied

    def enter(self, calls: Sequence[Waiting]) -> None:
        """Let calls wait behind those that already do; those with a free lane have their turn at once."""
        self._turns.update({call.key: Ending() for call in calls})
        self._lanes.enter(calls)
        self._start_ready()

    def has_turn(self, key: str) -> bool:
        """Say whether it is the call's turn."""
        return self._turns[key].settled

    async def turn_of(self, key: str, stop: Ending[CallFailure]) -> CallFailure | None:
        """Wait until it is the call's turn (None), or until it is stopped (why)."""
        stop.on_settled(self._turns[key].settle)
        return await self._turns[key].wait()

    def start_beside(self, call: Waiting, lenders: Collection[str]) -> bool:
        """Let a delegation run now, or say that it cannot; see `Lanes.start_beside`."""
        return self._lanes.start_beside(call, lenders)

    def leave(self, key: str) -> None:
        """The call has ended or given up; whoever waited for its lane has his turn now."""
        self._lanes.leave(key)
        self._turns.pop(key, None)
        self._start_ready()

    def _start_ready(self) -> None:
        for key in self._lanes.start_ready():
            self._turns[key].settle(None)
