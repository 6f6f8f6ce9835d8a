"""The four lifecycle states of a definition, and the moves between them.

The states of one call of a sub-agent are unrelated: see `core/executing/states.py`.
"""

from collections.abc import Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

from sidecar.core.errors import TransitionRefused


@unique
class LifecycleState(StrEnum):
    """The lifecycle state of a definition. There is no `retired` state (PF1-D-15). Source: PF1-FR-1a."""

    DEV = "dev"
    TEST = "test"
    PROMOTE = "promote"
    ROLLBACK = "rollback"


MOVES: Final[Mapping[LifecycleState, frozenset[LifecycleState]]] = MappingProxyType(
    {
        # No move to `rollback`: a definition in `dev` has never served a user, so there is nothing to withdraw.
        LifecycleState.DEV: frozenset({LifecycleState.TEST}),
        LifecycleState.TEST: frozenset({LifecycleState.PROMOTE, LifecycleState.ROLLBACK}),
        LifecycleState.PROMOTE: frozenset({LifecycleState.ROLLBACK}),
        # Final: a definition that returned under the same digest would bring back what was withdrawn.
        LifecycleState.ROLLBACK: frozenset(),
    }
)
"""The possible next states of each state. Source: PF1-FR-1b, PF1-FR-1c, PF1-D-13, TN-54."""


def moved(source: LifecycleState, target: LifecycleState) -> LifecycleState:
    """Return `target` if the transition is allowed.

    Raises:
        TransitionRefused: it is not; the message lists the allowed ones.
    """
    if target not in MOVES[source]:
        possible = ", ".join(sorted(MOVES[source])) or "no other state: author a new definition"
        raise TransitionRefused(
            f"a definition in {source} cannot move to {target}; from {source} it can move to {possible}",
            metadata={"source_state": source, "target_state": target},
        )
    return target


@unique
class Trigger(StrEnum):
    """The cause of a transition. Source: TN-84."""

    GATE = "gate"
    OPERATOR = "operator_initiated"
    KILL_SWITCH = "kill_switch"
