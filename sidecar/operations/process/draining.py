"""Drains a sidecar before it stops: waits for running work, then leaves the turns that other sidecars can continue.

A turn without running calls no longer needs this process. Its parent can end it at any sidecar on the same record;
otherwise one of those sidecars closes it. A drain therefore waits for such a turn only briefly. Source: DESIGN
section 12.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct

from sidecar.operations.ports import Clock
from sidecar.operations.turn.end_turn import EndTurn
from sidecar.operations.turn.state.dispatch_stages import DispatchStage
from sidecar.operations.turn.state.open_turns import Turn, Turns

LOOK_SECONDS: Final = 0.02
"""Seconds between two looks at the running work. A drain lasts at most this much longer than the work."""
TELL_SECONDS: Final = 5.0
"""Seconds between two progress reports."""
NAMED: Final = 3
"""The most ids in one report."""


class DrainRules(Struct, frozen=True):
    """How long a drain may take.

    Attributes:
        grace: seconds for running work.
        margin: seconds after that for parents to end their turns.
        end_within: seconds for recording what is stopped at the end.
        outlived: the record and the token keys outlive the process, so that other sidecars can continue its turns.
    """

    grace: float
    margin: float
    end_within: float
    outlived: bool


class DrainProgress(Struct, frozen=True):
    """What a drain waits for.

    Attributes:
        calls: RPCs that are being served, by method.
        dispatches: number of running dispatches.
        turns: number of open turns in which no work runs.
        oldest: ids of those that have waited longest, dispatches first.
    """

    calls: Mapping[str, int]
    dispatches: int
    turns: int
    oldest: tuple[str, ...]


class RemainingTurns(Struct, frozen=True):
    """The turns that were still open when the sidecar stopped.

    Attributes:
        cut_off: turns with running calls: the calls were stopped and the turns ended.
        ended: turns that only this sidecar could end.
        left: turns that are left to their parents and to other sidecars.
        oldest: ids of some of the turns in `left`.
    """

    cut_off: int
    ended: int
    left: int
    oldest: tuple[str, ...]


class Drain:
    """One drain.

    Args:
        rules: how long it may take.
        turns: the turns of this process.
        end_turn: ends the turns that other sidecars cannot continue.
        calls: returns the RPCs that are being served, by method.
        clock: for durations.
    """

    def __init__(
        self,
        rules: DrainRules,
        turns: Turns,
        end_turn: EndTurn,
        calls: Callable[[], Mapping[str, int]],
        clock: Clock,
    ) -> None:
        self._rules = rules
        self._turns = turns
        self._end_turn = end_turn
        self._calls = calls
        self._clock = clock

    async def wait(self, hurry: asyncio.Event, tell: Callable[[DrainProgress], None]) -> None:
        """Wait until no work runs and every turn has ended.

        The wait is shorter if the grace is over, the margin has passed without work, or `hurry` is set.

        Args:
            hurry: ends the wait when it is set.
            tell: receives a progress report from time to time.
        """
        began = worked_at = told_at = self._clock.monotonic()
        while not hurry.is_set():
            now = self._clock.monotonic()
            # Calls too: a `BindTurn` that is being served has no turn yet, and its client waits for the answer.
            is_working = bool(self._turns.working.taken or self._calls())
            # The margin counts from the last moment with work, because a parent ends its turn after the last result.
            worked_at = now if is_working else worked_at
            if not is_working and (now >= worked_at + self._rules.margin or not self._at_rest()):
                return
            if now >= began + self._rules.grace:
                return
            if now >= told_at + TELL_SECONDS:
                told_at = now
                tell(self.awaited())
            with suppress(TimeoutError):
                # Polling is sufficient: a drain happens once, and an event for each end of a call would burden every
                # call.
                async with asyncio.timeout(LOOK_SECONDS):
                    await hurry.wait()

    def awaited(self) -> DrainProgress:
        """Return what the drain waits for now."""
        running = [
            dispatch
            for turn in self._turns
            for dispatch in turn.dispatches.values()
            if dispatch.ownership.here and dispatch.stage is not DispatchStage.FINISHED
        ]
        running.sort(key=lambda each: each.received_at)
        at_rest = self._at_rest()
        ids = [f"{each.dispatch_id} of {each.turn.turn_id}" for each in running] + [each.turn_id for each in at_rest]
        return DrainProgress(self._calls(), len(running), len(at_rest), tuple(ids[:NAMED]))

    async def leave(self) -> RemainingTurns:
        """Stop running calls, end the turns that only this sidecar can end, and leave the other turns unchanged."""
        at_rest = self._at_rest()
        # Decided before the first turn is ended, because `reap` changes which turns are at rest.
        left = [turn for turn in at_rest if self._rules.outlived and _is_on_record(turn)]
        left_ids = {turn.turn_id for turn in left}
        to_end = [
            turn
            for turn in self._turns
            if turn.ending.closed is None and turn.dispatches and turn.turn_id not in left_ids
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rules.end_within):
                # One limit for all turns together: a store that hangs must not prolong the stop of the process.
                for turn in to_end:
                    # One after the other: the store gets one append at a time while it may be under load from other
                    # replicas.
                    await self._end_turn.reap(turn)
        # `to_end` has the turns with running calls, and those at rest that are not left to others.
        oldest = tuple(turn.turn_id for turn in left[:NAMED])
        return RemainingTurns(len(to_end) + len(left) - len(at_rest), len(at_rest) - len(left), len(left), oldest)

    def _at_rest(self) -> list[Turn]:
        """Return the open turns that have dispatched and in which nothing runs, in order of binding.

        Turns without a dispatch are excluded: no sidecar holds state for them, so any sidecar can serve them.
        """
        return [turn for turn in self._turns if turn.ending.closed is None and turn.dispatches and not turn.works]


def _is_on_record(turn: Turn) -> bool:
    """Return whether nothing of a turn is known here only."""
    # Otherwise another sidecar would continue the turn without facts that only this process has.
    return not (turn.uncertain or turn.unrecorded)
