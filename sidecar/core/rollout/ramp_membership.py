"""The properties of a user that decide which definition serves a slot: inside or outside of each ramp.

`serving_definition` needs only these and the arm. Users with the same memberships are therefore served alike, and a
bind reuses the decision. Source: PF1-NFR-4, DESIGN sections 8 and 14 (row 8).
"""

from collections.abc import Iterable

import msgspec

from sidecar.core.identifiers import Slot
from sidecar.core.rollout.bucketing import WHOLE, bucket_of
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.serving import FlagReader, flag_share
from sidecar.core.rollout.view import RolloutView

Sides = tuple[int, ...] | None
"""For each boundary, the number of its ramps that include the user.

None: a user without a key is outside all ramps, even at 100 %.
"""


class RampBoundary(msgspec.Struct, frozen=True):
    """The boundaries that divide the users of a slot: ramps and flag shares of the active definition and its target.

    Attributes:
        ramps: basis points, each above 0 and below 10,000.
    """

    salt: str
    ramps: tuple[int, ...]


def boundaries_of(slots: Iterable[Slot], view: RolloutView, flags: FlagReader) -> tuple[RampBoundary, ...]:
    """Return the ramp boundaries among the users of these slots; a ramp of 0 % or 100 % has none."""
    rollouts = [view.slots[slot] for slot in slots if slot in view.slots]
    divides = (RampBoundary(rollout.salt, _ramps(rollout, flags)) for rollout in rollouts)
    return tuple(divide for divide in divides if divide.ramps)


def membership_of(divides: Iterable[RampBoundary], key: str) -> Sides:
    """Return the ramps that include the user with `key`; about 1 µs per boundary."""
    # Before the hash: all users without a key would share one bucket, and could all be inside a ramp.
    if not key:
        return None
    sides = []
    for divide in divides:
        bucket = bucket_of(divide.salt, key)
        # The number identifies the ramps: ramps of one slot are nested, because they share the salt.
        # A list: for two or three ramps it is faster than a generator, and every bind runs this.
        sides.append(sum([bucket < ramp for ramp in divide.ramps]))
    return tuple(sides)


def _ramps(rollout: SlotRollout, flags: FlagReader) -> tuple[int, ...]:
    asked = (rollout.active, rollout.target)
    found = [rollout.definitions[digest] for digest in asked if digest is not None and digest in rollout.definitions]
    # Flags that are retired decide nothing, so their shares divide no users.
    shares = [flag_share(facts, flags) for facts in found if facts.gated]
    return tuple(each for each in (*(facts.ramp for facts in found), *shares) if 0 < each < WHOLE)
