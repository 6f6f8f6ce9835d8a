"""Each rollout of a slot has a salt of its own, so that the same users are not first every time."""

from typing import Final

import pytest

from sidecar.core.identifiers import Digest
from sidecar.core.rollout import rollback, transitions
from sidecar.core.rollout.bucketing import WHOLE, in_ramp
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.past_rollout import as_of
from sidecar.core.rollout.states import LifecycleState
from tests.support.requirement import requirement
from tests.unit.rollout.building import NOW, by, facts, rollout

BY: Final = by()
USERS: Final = [f"user-{number}" for number in range(400)]


def before(old_ramp: int = WHOLE) -> SlotRollout:
    """Return a slot that an old definition serves, beside a new one that is promoted and was never active."""
    return rollout(facts("old", ramp=old_ramp), facts("new", ramp=0, activated_at=None), active="old")


def first_users(of: SlotRollout) -> set[str]:
    """Return who is inside a ramp of 5 %."""
    return {user for user in USERS if in_ramp(of.salt, user, 500)}


@requirement("PF1-D-66")
def test_another_rollout_of_a_slot_begins_with_other_users() -> None:
    """The salt names the slot and the content; the audit has it."""
    of = before()
    change = transitions.set_ramp(of, Digest("sha256:new"), 500, BY)

    assert (of.salt, change.rollout.salt) == ("shop", "shop/new")
    assert first_users(of) != first_users(change.rollout)
    assert [event.detail for event in change.events if event.what == "activated"] == ["salt shop/new"]


def test_the_first_definition_of_a_slot_has_the_salt_of_the_slot() -> None:
    """Nothing was active before."""
    of = rollout(facts("new", ramp=0, activated_at=None))
    change = transitions.set_ramp(of, Digest("sha256:new"), 500, BY)
    assert (change.rollout.salt, [event.detail for event in change.events if event.what == "activated"]) == (
        "shop",
        [""],
    )


@pytest.mark.parametrize(("old_ramp", "salt"), [(0, "shop/new"), (1, "shop"), (WHOLE - 1, "shop"), (WHOLE, "shop/new")])
def test_the_salt_stays_while_another_definition_serves_a_part_of_the_users(old_ramp: int, salt: str) -> None:
    """With another salt, others than before would be served by it."""
    assert transitions.set_ramp(before(old_ramp), Digest("sha256:new"), 500, BY).rollout.salt == salt


def test_what_was_rolled_back_keeps_no_salt() -> None:
    """Its ramp does not count any more."""
    gone = facts("gone", LifecycleState.ROLLBACK, ramp=500, activated_at=NOW)
    of = rollout(gone, facts("new", ramp=0, activated_at=None))
    assert transitions.set_ramp(of, Digest("sha256:new"), 500, BY).rollout.salt == "shop/new"


@requirement("PF1-D-66")
def test_ramps_and_a_rollback_keep_the_salt_of_a_rollout() -> None:
    """A user inside stays inside when the ramp rises; the target serves all users again, under any salt."""
    new = Digest("sha256:new")
    ramped = transitions.set_ramp(before(), new, 500, BY).rollout
    for to in (2500, 500, 0, WHOLE):
        ramped = transitions.set_ramp(ramped, new, to, BY).rollout
        assert ramped.salt == "shop/new"
    back = rollback.roll_back(ramped, new, BY).rollout
    assert (back.salt, back.active) == ("shop/new", "sha256:old")


def test_the_past_has_the_salt_of_its_time() -> None:
    """Read from the audit: before the step the old one, after it the new one."""
    change = transitions.set_ramp(before(), Digest("sha256:new"), 500, BY)
    assert as_of(change.rollout, [], before()).salt == "shop"
    assert as_of(change.rollout, change.events, before()).salt == change.rollout.salt
