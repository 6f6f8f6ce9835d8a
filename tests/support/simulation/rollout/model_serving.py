"""Who serves a user, as DESIGN section 8 puts it. Nothing of the sidecar is known here."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tests.support.simulation.rollout.model_values import EVERYBODY, Definition, Slot

ON, OFF, UNKNOWN = "on", "off", "unknown"
CONTROL: Final = "control"
SERVED, PASSED_OVER, ABSENT = "served", "passed over", "absent"


@dataclass(frozen=True, slots=True)
class Moment:
    """What a bind is decided from, besides the slot.

    Attributes:
        flag: what is known of a flag: `on`, `off` or `unknown`.
        killed: contents that were stopped here for good, on record or not.
        down: contents that count as being at 0 % here.
        deprecated: contents whose entry says so.
    """

    flag: Callable[[str], str]
    killed: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()
    deprecated: frozenset[str] = frozenset()


def bucket(salt: str, user: str) -> int:
    """Return 0 to 9999: `b1`, as DESIGN section 8 spells it out."""
    first = sha256(b"b1\x1f" + salt.encode() + b"\x1f" + user.encode()).digest()[:8]
    return (int.from_bytes(first, "big") * 10_000) >> 64


def who_serves(slot: Slot, user: str, arm: str, moment: Moment) -> str | None:
    """Return the content that serves a user; None: nobody."""
    active = slot.of(slot.active)
    if active is None or active.content in moment.killed:
        return None  # a kill leaves the slot empty, for the control group too
    stands = _stands(slot, active, user, moment, control=slot.experiment and arm == CONTROL)
    if stands == SERVED:
        return active.content
    target = slot.of(active.behind)
    if stands == ABSENT or target is None or target.content == active.content:
        return None
    return target.content if _stands(slot, target, user, moment, control=False) == SERVED else None


def _stands(slot: Slot, it: Definition, user: str, moment: Moment, *, control: bool) -> str:
    if it.killed or it.state != "promote" or it.content in moment.killed or it.content in moment.deprecated:
        return ABSENT
    ramp = 0 if it.content in moment.down else it.ramp
    inside = bool(user) and bucket(slot.salt or slot.name, user) < ramp <= EVERYBODY
    if control or not inside:
        return PASSED_OVER  # no candidate of it: what its flags would say is all the same
    if it.flag is not None and it.flags != "retired":
        values = (moment.flag(it.flag), moment.flag(f"{it.flag}_cohort"))
        if UNKNOWN in values:
            return ABSENT
        if OFF in values:
            return PASSED_OVER
    return SERVED
