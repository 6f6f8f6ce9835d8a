"""What contradicts the record is told in words that name exactly the flags that are meant."""

from sidecar.core.rollout.drift import drifts_of
from sidecar.core.rollout.serving import ReadsFlags
from sidecar.core.rollout.states import LifecycleState
from tests.unit.rollout.building import facts, flags, rollout

KILL, COHORT = "ai_assistant_subagent_a", "ai_assistant_subagent_a_cohort"


def told(seen: ReadsFlags) -> list[str]:
    """Return the drifts of a definition in `rollback` that had been switched on."""
    back = facts("a", LifecycleState.ROLLBACK)
    return list(drifts_of(rollout(back), back, seen, configured=True, deprecated=False))


def test_after_a_roll_back_the_flags_that_are_still_on_are_named() -> None:
    """Both after a roll-back; after a kill, which switches the kill flag off, the cohort flag alone; none: no drift."""
    (both,), (one,) = told(flags("a")), told(flags("a_cohort"))

    assert both.startswith(f"it is in rollback, and its flags {KILL} and {COHORT} are still on: ")
    assert one.startswith(f"it is in rollback, and its flag {COHORT} is still on: ")
    assert told(flags()) == []
