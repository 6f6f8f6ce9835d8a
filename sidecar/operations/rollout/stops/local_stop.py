"""The common part of kills and ramp-downs: they take effect here before any check. Source: DESIGN section 12.

While the store is unavailable, a stop is in effect in the replicas that received it. `RecordStops` records it as soon
as the store is back. If several replicas do so, it is still one event.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.operations.ports import Clock
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.definition_lookup import DefinitionMatch
from sidecar.operations.rollout.requests import Kill, RampDown, StepAnswer
from sidecar.operations.rollout.store.ports import LocalStop, RolloutRecorder, RolloutStore, StopKind, Tombstones
from sidecar.operations.rollout.views.snapshot import RolloutViews

LONGEST_KEEPING: Final = 2.0
"""Seconds for the disk. After that, the answer says that the stop does not survive a restart."""
LONGEST_LOOK: Final = 2.0
"""Seconds for each of the two reads of the store in `_release_once_shown`."""
LONGEST_WRITE: Final = 2.0
"""Seconds for one access to the store."""
LONGEST_RECORDING: Final = 8.0
"""Seconds for recording one pending stop."""
REPLICA, FLAG, RECORD = "replica", "flag", "record"
"""What a stop reaches, in the words of its answer."""
MOST_PENDING: Final = 1000
"""The most stops that wait for the store.

A further one is accepted only if it stops a definition that is still served.
"""
NOT_KEPT: Final = (
    "the tombstone file cannot be written: unless the stop is recorded, it is in effect only in this replica"
    " while the process runs, and does NOT survive a restart; check that it is recorded, or repeat it once the disk"
    " works again"
)
Recorded = StepAnswer | SubagentsError
"""The record's answer to a stop, or the error if there is none."""


def request_of(stop: LocalStop) -> Kill | RampDown:
    """Return the request of a stop. Raises `DecodeError` if it cannot be read any more."""
    kind: type[Kill] | type[RampDown] = Kill if stop.kind is StopKind.KILL else RampDown
    return from_json(stop.request_json, kind)


def reach_of(stop: LocalStop, local_answer: StepAnswer, recorded: Recorded, warnings: tuple[str, ...]) -> StepAnswer:
    """Return the answer to a stop, with what it has reached.

    Args:
        stop: the stop.
        local_answer: the answer if the stop holds only here; its `reached` and `edits` are used in any case.
        recorded: the record's answer, or why there is none.
        warnings: about the local stop.

    Raises:
        SubagentsError: the record has refused the stop.
    """
    if isinstance(recorded, StepAnswer):
        everywhere = (*local_answer.reached, RECORD)
        return msgspec.structs.replace(recorded, reached=everywhere, edits=local_answer.edits, warnings=warnings)
    if not isinstance(recorded, StoreUnavailable):
        raise recorded
    # The stop holds here, so the caller gets an answer and no error; `RecordStops` completes it.
    follows = f"the store is unavailable; the {stop.kind.replace('_', '-')} is recorded once the store is back"
    return msgspec.structs.replace(local_answer, changed=True, warnings=(*warnings, follows))


class ApplyStopLocally(msgspec.Struct, frozen=True, kw_only=True):
    """Applies stops in this process, and releases them once the record has decided about them.

    A released stop is no longer pending. A released ramp-down ends here, because the record decides about the ramp. A
    released kill stays in effect here for ever, for the killed digest, even if the record has refused it: stopping
    too much is the safe side. If the record may still serve the digest, `RecordStops` makes the kill pending once more.
    While a kill is pending, it also stops later contents of the definition.
    """

    store: RolloutStore
    tombstones: Tombstones
    views: RolloutViews
    clock: Clock
    recorder: RolloutRecorder

    def stop_of(self, asked: Kill | RampDown, kind: StopKind, found: DefinitionMatch, actor: str) -> LocalStop:
        """Return the stop that `asked` means, as of now."""
        return LocalStop(
            kind=kind,
            digest=found.facts.digest,
            definition_id=found.facts.definition_id,
            slot=found.rollout.slot,
            at=self.clock.now(),
            by=actor,
            request_json=msgspec.json.encode(asked).decode(),
        )

    def is_full(self) -> bool:
        """Return whether too many stops are pending to accept one that changes nothing here.

        Without this limit, repeated requests during an outage could fill the tombstone file.
        """
        return len(self.tombstones.pending()) >= MOST_PENDING

    async def hold(self, stop: LocalStop) -> tuple[str, ...]:
        """Apply a stop here immediately, and store it; return a warning if it could not be stored."""
        try:
            async with asyncio.timeout(LONGEST_KEEPING):
                # In effect as soon as it is called: the file is written afterwards. A disk that hangs delays the
                # answer, not the stop.
                await self.tombstones.add(stop)
        except (OSError, TimeoutError) as error:  # TimeoutError: a disk that hangs
            self.recorder.anomaly("tombstone_not_kept", f"{stop.kind} of {stop.definition_id}: {type(error).__name__}")
            return (NOT_KEPT,)
        return ()

    async def recorded(self, stop: LocalStop, writing: Awaitable[StepAnswer], longest: float) -> Recorded:
        """Wait for the record's answer to a stop, and release the stop if there is one.

        Args:
            stop: the local stop, already in effect here.
            writing: records the stop.
            longest: seconds for that.

        Returns:
            The answer, or why there is none.
        """
        try:
            # A limit: the caller of a kill waits for this answer, and the stop is in effect here already.
            # `read_within` returns `StoreUnavailable` and raises every other error.
            answer: Recorded = await read_within(writing, longest)
        except SubagentsError as refused:
            answer = refused
        if isinstance(answer, StepAnswer):
            await self._release_once_shown(stop)
        # A final refusal: the stop must not be tried again, and a ramp-down must not stay in effect here.
        elif not isinstance(answer, StoreUnavailable):
            await self._release(stop)
        return answer

    async def _release_once_shown(self, stop: LocalStop) -> None:
        """Release the stop once binds use the record's version.

        If it were released earlier, the stopped definition could be served again in between. This also applies to a
        kill: a released kill stops only the killed digest, and the outdated view of the binds may have a later content
        of the definition.
        """
        version = await read_within(self.store.version(), LONGEST_LOOK)
        if isinstance(version, StoreUnavailable):
            return
        await read_within(self.views.look(), LONGEST_LOOK)
        # If the view is older, a later pass of `RecordStops` releases the stop; until then the stop only repeats what
        # the record says.
        if self.views.current().version >= version:
            await self._release(stop)

    async def _release(self, stop: LocalStop) -> None:
        """Mark a stop as no longer pending, because it was recorded or refused.

        If this mark is lost, the stop is sent to the record again after a restart, without effect.
        """
        try:
            async with asyncio.timeout(LONGEST_KEEPING):
                await self.tombstones.recorded(stop)
        except (OSError, TimeoutError) as error:
            self.recorder.anomaly("tombstone_not_kept", f"record of {stop.definition_id}: {type(error).__name__}")
