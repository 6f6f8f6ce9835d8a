"""What people, automation and flags ask of a rollout, as plain words. Nothing of the sidecar is known here."""

from dataclasses import dataclass
from typing import Final

TO_TEST: Final = "to_test"
PROMOTE: Final = "promote"
SET_RAMP: Final = "set_ramp"
RAMP_DOWN: Final = "ramp_down"
ACKNOWLEDGE: Final = "acknowledge"
OVERRIDE: Final = "override"
ROLL_BACK: Final = "roll_back"
ACTIVATE: Final = "activate"
KILL: Final = "kill"
RETIRE_FLAGS: Final = "retire_flags"

STOPS: Final = frozenset({RAMP_DOWN, KILL})
"""What waits for nothing."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One request.

    Attributes:
        request_id: the same for every attempt.
        name: id of the definition that is meant.
        content: digest of exactly which content of it; empty: the one that serves, else the newest.
        to: ramp in basis points, of a ramp and of an override.
        until: wall-clock seconds after the start, of an override.
        revision: of the slot, as read before; None: not said.
    """

    request_id: str
    kind: str
    name: str
    subject: str
    reason: str
    content: str = ""
    to: int = 0
    breach: str = ""
    gate: str = ""
    until: float = 0.0
    revision: int | None = None
    dry_run: bool = False
