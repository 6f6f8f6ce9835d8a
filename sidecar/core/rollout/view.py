"""What binds read of all rollouts: one immutable value, swapped as a whole."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from sidecar.core.identifiers import Digest, Slot
from sidecar.core.rollout.facts import SlotRollout


class RolloutView(msgspec.Struct, frozen=True):
    """All rollouts as of one version.

    Attributes:
        version: of the store that it shows.
        killed: definitions that were killed here and may not be on record yet: served to nobody.
        follows_flags: there is no rollout at all; an entry then follows its two flags alone. For a sidecar inside a
            test or another program; a process always has rollouts, and what is not on record there is not served.
    """

    slots: Mapping[Slot, SlotRollout] = MappingProxyType({})
    version: int = 0
    killed: frozenset[Digest] = frozenset()
    follows_flags: bool = False


def with_ramps_down(slots: Mapping[Slot, SlotRollout], down: frozenset[Digest]) -> Mapping[Slot, SlotRollout]:
    """Return rollouts in which `down` are at 0 %, as they are on record soon; the same object if none is there."""
    changed = {
        slot: msgspec.structs.replace(
            rollout,
            definitions={
                digest: msgspec.structs.replace(facts, ramp=0) if digest in down else facts
                for digest, facts in rollout.definitions.items()
            },
        )
        for slot, rollout in slots.items()
        if not down.isdisjoint(rollout.definitions)
    }
    return {**slots, **changed} if changed else slots


FOLLOWS_FLAGS: Final = RolloutView(follows_flags=True)
