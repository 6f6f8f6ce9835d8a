"""What contradicts the record is told in words that name exactly the flags that are meant."""

from sidecar.core.identifiers import Digest
from sidecar.core.rollout.drift import drifts_of
from sidecar.core.rollout.facts import FlagPair
from sidecar.core.rollout.serving import FlagReader
from sidecar.core.rollout.states import LifecycleState
from tests.unit.rollout.building import facts, flags, rollout, with_target

KILL, COHORT = "ai_assistant_subagent_a", "ai_assistant_subagent_a_cohort"


def told(seen: FlagReader) -> list[str]:
    """Return the drifts of a definition in `rollback` that had been switched on."""
    back = facts("a", LifecycleState.ROLLBACK)
    return list(drifts_of(rollout(back), back, seen, configured=True, deprecated=False))


def test_after_a_roll_back_the_flags_that_are_still_on_are_named() -> None:
    """Both after a roll-back; after a kill, which switches the kill flag off, the cohort flag alone; none: no drift."""
    (both,), (one,) = told(flags("a")), told(flags("a_cohort"))

    assert both.startswith(f"it is in rollback, and its flags {KILL} and {COHORT} are still on: ")
    assert one.startswith(f"it is in rollback, and its flag {COHORT} is still on: ")
    assert told(flags()) == []


def test_flags_that_were_let_go_and_are_still_named_are_told() -> None:
    """Switching them looks like a kill switch and is none."""
    served = facts("a", flags=FlagPair.RETIRED)
    (said,) = drifts_of(rollout(served, active="a"), served, flags(), configured=True, deprecated=False)
    assert said == f"its flags are retired, and its entry still names {KILL}: switching this flag has no effect"


def test_the_recorded_target_serves_too_and_so_its_absence_is_told() -> None:
    """Whom the active one does not serve, it does; in the configuration it is gone, or deprecated."""
    target, active = facts("b"), with_target(facts("a", ramp=40), "b")
    both = rollout(active, target, active="a")
    gone, deprecated = (
        list(drifts_of(both, target, flags("b"), configured=configured, deprecated=not configured))
        for configured in (False, True)
    )
    assert gone[0].startswith("it is the recorded target, and the configuration does not have it any more")
    assert deprecated == []
    (said,) = drifts_of(both, target, flags("b"), configured=True, deprecated=True)
    assert said.startswith("it is the recorded target, and its entry is marked deprecated")


def test_a_flag_that_another_content_of_the_id_has_switched_on_is_no_contradiction() -> None:
    """A major change names the flags of the one that is live."""
    live = facts("a")
    newer = facts("a", digest=Digest("sha256:newer"), flags=FlagPair.CREATED, activated_at=None)
    assert list(drifts_of(rollout(live, newer, active="a"), newer, flags("a"), configured=True, deprecated=False)) == []


def test_after_a_rollback_a_flag_that_another_content_of_the_id_needs_is_no_contradiction() -> None:
    """An operator who switched it off, as the drift advises, would kill the content that serves again."""
    live = facts("a")
    back = facts("a", LifecycleState.ROLLBACK, digest=Digest("sha256:newer"))
    assert list(drifts_of(rollout(live, back, active="a"), back, flags("a"), configured=True, deprecated=False)) == []
