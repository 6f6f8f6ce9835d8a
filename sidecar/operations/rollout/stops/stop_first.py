"""What a kill and a ramp-down have in common: they hold here before anybody is asked. Source: DESIGN section 12."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import StoreUnavailable
from sidecar.core.flag_states import FlagSnapshot
from sidecar.core.identifiers import Digest, Vertical
from sidecar.operations.ports import Clock
from sidecar.operations.record.timed_access import in_time
from sidecar.operations.rollout.audit_context import Surrounding
from sidecar.operations.rollout.definition_lookup import Found
from sidecar.operations.rollout.requests import Asked, Kill, RampDown
from sidecar.operations.rollout.store.ports import (
    FlagWriter,
    LocalStop,
    RolloutRecorder,
    RolloutStore,
    StopKind,
    Tombstones,
)
from sidecar.operations.rollout.views.snapshot import RolloutViews

LONGEST_KEEPING: Final = 2.0
"""Seconds that a disk may take before a stop is answered as one that does not survive a restart."""
LONGEST_LOOK: Final = 2.0
"""Seconds for the store."""
REPLICA, FLAG, RECORD = "replica", "flag", "record"
"""What a stop reaches, in the words of its answer."""
MOST_PENDING: Final = 1000
"""Stops that wait for the store; one more is taken only if it takes something away that is still served."""
NOT_KEPT: Final = (
    "it holds in this replica as long as the process runs, and does NOT survive a restart: its file of tombstones"
    " cannot be written; repeat it once the disk is well, or see that it is put on record"
)


@dataclass(frozen=True, slots=True)
class StopParts:
    """What a stop needs.

    Attributes:
        surrounding: what the audit says of the moment.
        writer_of: who writes the flags of a vertical.
        flags: of all backends, as last fetched.
        card: a card that was ever loaded here.
    """

    store: RolloutStore
    tombstones: Tombstones
    views: RolloutViews
    clock: Clock
    recorder: RolloutRecorder
    surrounding: Callable[[], Surrounding]
    writer_of: Callable[[Vertical], FlagWriter]
    flags: Callable[[], FlagSnapshot]
    card: Callable[[Digest], Card | None]


def stop_of(asked: Asked, kind: StopKind, found: Found, by: tuple[str, Clock]) -> LocalStop:
    """Return the stop that `asked` means."""
    rollout, facts = found
    actor, clock = by
    return LocalStop(
        kind=kind,
        digest=facts.digest,
        definition_id=facts.definition_id,
        slot=rollout.slot,
        at=clock.now(),
        by=actor,
        request_json=msgspec.json.encode(asked).decode(),
    )


def asked_of(stop: LocalStop) -> Kill | RampDown:
    """Return what was asked when a stop was taken. Raises `Undecodable` if that cannot be read any more."""
    kind: type[Kill] | type[RampDown] = Kill if stop.kind is StopKind.KILL else RampDown
    return from_json(stop.request_json, kind)


def is_full(parts: StopParts) -> bool:
    """Say whether so many stops wait that one which changes nothing here is not taken: the file must not fill up."""
    return len(parts.tombstones.pending()) >= MOST_PENDING


async def hold(parts: StopParts, stop: LocalStop) -> tuple[str, ...]:
    """Let a stop count here at once, and keep it; returns the warning if it is not kept."""
    try:
        async with asyncio.timeout(LONGEST_KEEPING):
            await parts.tombstones.add(stop)
    except (OSError, TimeoutError) as error:  # TimeoutError: a disk that hangs
        parts.recorder.anomaly("tombstone_not_kept", f"{stop.kind} of {stop.definition_id}: {type(error).__name__}")
        return (NOT_KEPT,)
    return ()


async def let_go_once_shown(parts: StopParts, stop: LocalStop) -> None:
    """Let the record speak from here on; not before binds show it, or what was stopped would come back for a moment.

    For a kill, too: binds may still show another content of the definition than the one that was killed.
    """
    version = await in_time(parts.store.version(), LONGEST_LOOK)
    if isinstance(version, StoreUnavailable):
        return
    await in_time(parts.views.look(), LONGEST_LOOK)
    if parts.views.current().version >= version:
        await let_go(parts, stop)


async def let_go(parts: StopParts, stop: LocalStop) -> None:
    """Note that a stop is on record, or never will be; that this is not kept costs a repetition after a restart."""
    try:
        async with asyncio.timeout(LONGEST_KEEPING):
            await parts.tombstones.recorded(stop)
    except (OSError, TimeoutError) as error:
        parts.recorder.anomaly("tombstone_not_kept", f"record of {stop.definition_id}: {type(error).__name__}")
