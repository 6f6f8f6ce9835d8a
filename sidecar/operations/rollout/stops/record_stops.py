"""Records local stops as soon as the store accepts them. Source: DESIGN section 12.

A kill is permanent, but the rollout store may be lost or restored from a backup. If this process has a kill that the
store lacks, and the store would serve the definition, the kill is recorded again.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from sidecar.core.decoding import DecodeError
from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.identifiers import Digest
from sidecar.core.rollout import transitions
from sidecar.core.rollout.facts import DefinitionFacts
from sidecar.core.rollout.view import RolloutView, revised_by
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.requests import Kill
from sidecar.operations.rollout.stops.kills import KillDefinition
from sidecar.operations.rollout.stops.local_stop import LONGEST_RECORDING, ApplyStopLocally, Recorded, request_of
from sidecar.operations.rollout.stops.ramp_downs import RampDownImmediately
from sidecar.operations.rollout.store.ports import LocalStop, Tombstones

INTERVAL: Final = timedelta(seconds=1)


def revived(view: RolloutView, tombstones: Tombstones, card_of: Callable[[Digest], Card | None]) -> frozenset[Digest]:
    """Return the digests of kills that are not pending, but whose definition `view` may still serve.

    The view may also have an earlier content of the definition: the kill of a changed definition is returned if a
    restored store knows only the content before the change.
    """
    waiting = {stop.digest for stop in tombstones.pending()}
    return frozenset(
        digest
        for digest in tombstones.all()
        if digest not in waiting
        and any(transitions.may_be_killed(each) for each in _definitions_of(view, digest, card_of))
    )


def _definitions_of(
    view: RolloutView, digest: Digest, card_of: Callable[[Digest], Card | None]
) -> Iterator[DefinitionFacts]:
    """Yield the definition with this digest; if there is none, the definition of which this is a later content."""
    exact = [rollout.definitions[digest] for rollout in view.slots.values() if digest in rollout.definitions]
    yield from exact
    card = None if exact else card_of(digest)
    rollout = view.slots.get(card.definition.slot) if card is not None else None
    if card is not None and rollout is not None:
        facts = revised_by(rollout, card.definition.id, card.shape)
        if facts is not None:
            yield facts


class RecordStops:
    """Tries once a second to record the pending stops, after it has made lost kills pending again.

    Args:
        stops: the local stops and the views.
        kill, ramp_down: record their kind of stop.
    """

    def __init__(self, stops: ApplyStopLocally, kill: KillDefinition, ramp_down: RampDownImmediately) -> None:
        """Begin without a compared view, so that the first pass looks for lost kills."""
        self._tombstones, self._views, self._card_of = stops.tombstones, stops.views, kill.card_of
        self._recorder = stops.recorder
        self._compared: RolloutView | None = None  # the last view that was compared with the tombstones
        self._kill = kill
        self._ramp_down = ramp_down

    async def run(self) -> None:
        """Make passes periodically; the supervisor owns this loop."""
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL.total_seconds())

    async def look(self) -> None:
        """Try every pending stop once, oldest first. The first that finds the store unavailable ends the pass."""
        await self._find_lost()
        # Oldest first and one by one: a kill that follows a ramp-down of the same definition must be recorded after it.
        for stop in self._tombstones.pending():
            recorded = await read_within(self._record(stop), LONGEST_RECORDING)
            if isinstance(recorded, StoreUnavailable):
                return
            # A final refusal: `ApplyStopLocally.recorded` has released the stop, so it is not tried again.
            if isinstance(recorded, SubagentsError):
                self._recorder.anomaly("stop_not_recorded", f"{stop.kind} of {stop.definition_id}: {recorded.reason}")

    async def _find_lost(self) -> None:
        """Make kills pending again that the record does not have. Without a new view this costs one comparison."""
        if self._views.current() is self._compared:
            return
        if revived(self._views.current(), self._tombstones, self._card_of):
            await self._views.look()  # the view may be older than a kill that was recorded just now
        # Read again after the refresh: the comparison below must be with the newest view.
        self._compared = self._views.current()
        lost = revived(self._compared, self._tombstones, self._card_of)
        if lost:
            self._tombstones.pending_again(lost)
            self._recorder.anomaly(
                "kill_lost_from_record", f"{len(lost)}; what is known of them is put on record again"
            )

    async def _record(self, stop: LocalStop) -> Recorded | None:
        try:
            asked = request_of(stop)
        except DecodeError:
            self._recorder.anomaly("stop_not_recorded", f"{stop.kind} of {stop.definition_id} cannot be read any more")
            # Marked as settled, although it was not recorded: otherwise it would stay in the file for ever. A kill
            # stays in effect here, because its digest is known; a ramp-down ends.
            await self._tombstones.recorded(stop)
            return None
        if isinstance(asked, Kill):
            return await self._kill.record(asked, stop)
        return await self._ramp_down.record(asked, stop)
