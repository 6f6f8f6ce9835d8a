"""Puts stops that were taken here on record, as soon as the store takes them. Source: DESIGN section 12.

A kill is for ever, and the record may be lost, or restored as it was before: a kill that is kept here, and whose
definition the record would serve, is put on record again.
"""

import asyncio
from datetime import timedelta
from typing import Final

import msgspec

from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.identifiers import Digest
from sidecar.core.rollout import changes
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.recording import in_time
from sidecar.operations.rollout.kills import KillDefinition
from sidecar.operations.rollout.ports import LocalStop, RolloutRecorder, Tombstones
from sidecar.operations.rollout.ramp_downs import RampDownAtOnce
from sidecar.operations.rollout.requests import Kill
from sidecar.operations.rollout.snapshot import RolloutViews
from sidecar.operations.rollout.stopping import asked_of

INTERVAL: Final = timedelta(seconds=1)
LONGEST_RECORDING: Final = 5.0
"""Seconds for one stop."""


def revived(view: RolloutView, tombstones: Tombstones) -> frozenset[Digest]:
    """Return what was killed here, is not waiting to be put on record, and could be served by what the record says."""
    killed, waiting = tombstones.all(), {stop.digest for stop in tombstones.pending()}
    return frozenset(
        facts.digest
        for rollout in view.slots.values()
        for facts in rollout.definitions.values()
        if facts.digest in killed and facts.digest not in waiting and changes.may_be_killed(facts)
    )


class RecordStops:
    """The loop.

    Args:
        tombstones: say what is not on record yet.
        views: what the record says.
        kill, ramp_down: know how to put it there.
        recorder: told of a stop that the record refuses.
    """

    def __init__(
        self,
        tombstones: Tombstones,
        views: RolloutViews,
        kill: KillDefinition,
        ramp_down: RampDownAtOnce,
        recorder: RolloutRecorder,
    ) -> None:
        """Join the parts."""
        self._tombstones = tombstones
        self._views = views
        self._compared: RolloutView | None = None
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
        await self._find_lost()
        for stop in self._tombstones.pending():
            try:
                if isinstance(await in_time(self._recorded(stop), LONGEST_RECORDING), StoreUnavailable):
                    return
            except SubagentsError as refused:  # for good: it is not tried again
                self._recorder.anomaly("stop_not_recorded", f"{stop.kind} of {stop.definition_id}: {refused.reason}")

    async def _find_lost(self) -> None:
        """Let kills be pending again that the record does not have; without another view it costs a comparison."""
        if self._views.current() is self._compared:
            return
        if revived(self._views.current(), self._tombstones):
            await self._views.look()  # what was put on record just now may not be shown yet
        self._compared = self._views.current()
        lost = revived(self._compared, self._tombstones)
        if lost:
            self._tombstones.pending_again(lost)
            self._recorder.anomaly("kill_lost_from_record", f"{len(lost)} are put on record again")

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
