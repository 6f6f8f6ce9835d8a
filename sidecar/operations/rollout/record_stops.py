"""Puts stops that were taken here on record, as soon as the store takes them. Source: DESIGN section 12."""

import asyncio
from datetime import timedelta
from typing import Final

import msgspec

from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.operations.recording import in_time
from sidecar.operations.rollout.kills import KillDefinition
from sidecar.operations.rollout.ports import LocalStop, RolloutRecorder, Tombstones
from sidecar.operations.rollout.ramp_downs import RampDownAtOnce
from sidecar.operations.rollout.requests import Kill
from sidecar.operations.rollout.stopping import asked_of

INTERVAL: Final = timedelta(seconds=1)
LONGEST_RECORDING: Final = 5.0
"""Seconds for one stop."""


class RecordStops:
    """The loop.

    Args:
        tombstones: say what is not on record yet.
        kill, ramp_down: know how to put it there.
        recorder: told of a stop that the record refuses.
    """

    def __init__(
        self, tombstones: Tombstones, kill: KillDefinition, ramp_down: RampDownAtOnce, recorder: RolloutRecorder
    ) -> None:
        """Join the parts."""
        self._tombstones = tombstones
        self._kill = kill
        self._ramp_down = ramp_down
        self._recorder = recorder

    async def run(self) -> None:
        """Look for ever; owned by the supervisor."""
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL.total_seconds())

    async def look(self) -> None:
        """Try every pending stop once, oldest first; the first that finds no store ends the look."""
        for stop in self._tombstones.pending():
            try:
                if isinstance(await in_time(self._recorded(stop), LONGEST_RECORDING), StoreUnavailable):
                    return
            except SubagentsError as refused:  # for good: it is not tried again
                self._recorder.anomaly("stop_not_recorded", f"{stop.kind} of {stop.definition_id}: {refused.reason}")

    async def _recorded(self, stop: LocalStop) -> None:
        try:
            asked = asked_of(stop)
        except msgspec.MsgspecError:
            self._recorder.anomaly("stop_not_recorded", f"{stop.kind} of {stop.definition_id} cannot be read any more")
            await self._tombstones.recorded(stop)
            return
        if isinstance(asked, Kill):
            await self._kill.record_pending(asked, stop)
        else:
            await self._ramp_down.record(asked, stop)
