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
CONFIGURE: Final = "configure"
BEGIN: Final = "begin"
TAKE: Final = "take"
DECIDE: Final = "decide"
UNDO: Final = "undo"

OPERATOR, AUTOMATION = "operator", "automation"
"""As which people and pipelines ask."""
NOBODY: Final = "none"
STOPS: Final = frozenset({RAMP_DOWN, KILL})
"""What waits for nothing."""
OF_LEAVING: Final = frozenset({BEGIN, TAKE, DECIDE, UNDO})
"""What is asked of a decommission."""
HELD_UP: Final = frozenset({BEGIN, TAKE})
"""What waits until nobody is bound to the definition any more."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One request.

    Attributes:
        request_id: the same for every attempt.
        name: id of the definition that is meant.
        content: digest of exactly which content of it; empty: the one that serves, else the newest.
        to: ramp in basis points, of a ramp and of an override.
        until: wall-clock seconds after the start, of an override.
        mode: `experiment`, `cohort` or `full`, with `curve` in basis points: of a slot.
        step: of a decommission, 1 to 5; `code`: what step 3 made of the modules; `word`: what somebody vouches for.
        matter: `evals` or `tools`, with `choice`: `retain` or `remove`.
        instead: who serves after a rollback, by content, or `NOBODY`; empty: the recorded target.
        role: as which somebody asks.
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
    mode: str = ""
    curve: tuple[int, ...] = ()
    step: int = 0
    code: str = ""
    word: str = ""
    matter: str = ""
    choice: str = ""
    instead: str = ""
    role: str = OPERATOR
    revision: int | None = None
    dry_run: bool = False
