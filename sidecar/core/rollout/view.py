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


FOLLOWS_FLAGS: Final = RolloutView(follows_flags=True)
