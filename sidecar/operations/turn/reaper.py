"""Ends turns whose parent is lost or has been silent for too long."""

import asyncio

from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.end_turn import EndTurn
from sidecar.operations.turn.state.open_turns import Turns
from sidecar.operations.turn.state.turn_ends import IDLE


class Reaper:
    """Closes turns whose parent is lost, and forgets ended turns when their token has expired."""

    def __init__(
        self,
        rules: DispatchRules,
        dependencies: TurnDependencies,
        turns: Turns,
        end_turn: EndTurn,
        interval: float = 1.0,
    ) -> None:
        """Make a pass every `interval` seconds."""
        self._idle_lifetime = rules.idle_lifetime.total_seconds()
        self._deps = dependencies
        self._turns = turns
        self._end_turn = end_turn
        self._interval = interval

    async def run(self) -> None:
        """Make passes periodically; the supervisor owns this loop."""
        while True:
            await asyncio.sleep(self._interval)
            await self.look()

    async def look(self) -> None:
        """Make one pass."""
        now = self._deps.clock.monotonic()
        # `reap` waits for the store, one turn after the other. If the store is slow, a pass takes long; the next pass
        # closes the turns that expire meanwhile.
        for turn in self._turns:
            if now < turn.reap_at:
                continue
            if turn.ending.closed is None:
                await self._end_turn.reap(turn)
            else:
                # An end that was not confirmed may have been found in the record later; then it is not reported yet.
                self._end_turn.report(turn)
                self._turns.forget(turn)
        # The loop terminates: a turn that was reaped is closed or forgotten, so `idle_for` returns another one.
        while (idle := self._turns.idle_for(self._idle_lifetime)) is not None:
            if not await self._end_turn.reap(idle, IDLE):
                return  # the store is unavailable: the other turns would fail in the same way
            self._deps.recorder.idle_turn_ended("lifetime")
