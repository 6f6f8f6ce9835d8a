"""What a refused step tells an operator, word for word: these texts are what people read when something is wrong."""

from collections.abc import Callable, Mapping
from datetime import timedelta

import msgspec
import pytest

from sidecar.core.errors import RoleRequired, TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout import transitions
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.facts import Breach, DefinitionFacts, FlagPair, SlotRollout, Tombstone
from sidecar.core.rollout.remedies import REMEDY, Remedy
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.step import Change
from sidecar.core.rollout.transitions import PRE_FULL, PRE_MERGE, PRE_RAMP
from tests.unit.rollout.building import NOW, by, facts, rollout

DEV, TEST, PROMOTE, ROLLBACK = LifecycleState
Step = Callable[[SlotRollout, Digest], Change]
NO_METADATA: Mapping[str, str] = {}
BREACH = Breach("b-1", NOW, "too slow")


def to(ramp: int, role: str = "operator") -> Step:
    """Return the step to a ramp."""
    return lambda of, digest: transitions.set_ramp(of, digest, ramp, msgspec.structs.replace(by(), actor_role=role))


def down(breach_id: str) -> Step:
    """Return the ramp-down of a breach."""
    return lambda of, digest: transitions.ramp_down(of, digest, breach_id, by())


def note(breach_id: str) -> Step:
    """Return the acknowledgement of a breach."""
    return lambda of, digest: transitions.acknowledge(of, digest, breach_id, by())


def activate(of: SlotRollout, digest: Digest) -> Change:
    """Activate."""
    return transitions.activate(of, digest, by())


def kill(of: SlotRollout, digest: Digest) -> Change:
    """Kill."""
    return transitions.kill(of, digest, by())


def let_pass(gate: str, ramp: int, minutes: int = 5) -> Step:
    """Return the override of a gate."""
    expires = NOW + timedelta(minutes=minutes)
    return lambda of, digest: transitions.override(of, digest, by(), gate=gate, to=ramp, expires_at=expires)


def retire(of: SlotRollout, digest: Digest) -> Change:
    """Retire the flags."""
    return transitions.retire_flags(of, digest, by())


def check(step: Step, of: SlotRollout, why: str, metadata: Mapping[str, str] = NO_METADATA) -> None:
    """Take a step that is refused with these words and this metadata."""
    with pytest.raises(TransitionRefused) as refused:
        step(of, Digest("sha256:shop"))
    assert (str(refused.value), dict(refused.value.metadata)) == (why, dict(metadata))


def shop(state: LifecycleState = PROMOTE, **fields: object) -> DefinitionFacts:
    """Return the facts of `shop`."""
    return facts("shop", state, **fields)


@pytest.mark.parametrize("step", [to(500), down("b-1"), note("b-1"), activate, kill, let_pass(PRE_RAMP, 5), retire])
def test_a_digest_that_the_slot_does_not_have_is_refused(step: Step) -> None:
    """With the digest, so that a mistyped one can be seen."""
    check(step, rollout(), "shop has no definition with that digest", {"digest": "sha256:shop"})


def test_a_new_definition_is_promoted_behind_flags_only() -> None:
    """The refusal says which line to add."""
    check(
        lambda of, digest: transitions.promote(of, digest, by()),
        rollout(shop(TEST, flag=None, flags=FlagPair.NONE)),
        "shop names no `enabled_via_flag`; a new definition is promoted behind its flags only: "
        "add `enabled_via_flag: ai_assistant_subagent_shop` to its entry",
    )


@pytest.mark.parametrize("state", [DEV, PROMOTE, ROLLBACK])
def test_only_a_definition_in_test_is_promoted(state: LifecycleState) -> None:
    """Before anything else is looked at, its flag too."""
    with pytest.raises(TransitionRefused, match=f"^a definition in {state} cannot move to promote; "):
        transitions.promote(rollout(shop(state, flag=None)), Digest("sha256:shop"), by())


@pytest.mark.parametrize("ramp", [-1, WHOLE + 1])
def test_a_ramp_is_a_share(ramp: int) -> None:
    """Of ten thousand."""
    check(to(ramp), rollout(shop(), active="shop"), f"a ramp is 0 to 10000 basis points, not {ramp}")


@pytest.mark.parametrize(
    ("state", "metadata"),
    [(DEV, {REMEDY: Remedy.PROMOTE}), (TEST, {REMEDY: Remedy.PROMOTE}), (ROLLBACK, {REMEDY: Remedy.NEW_DEFINITION})],
)
def test_only_what_is_promoted_ramps(state: LifecycleState, metadata: Mapping[str, str]) -> None:
    """A promotion helps; beyond it only a new definition does."""
    check(to(500), rollout(shop(state)), f"shop is in {state}; only `promote` ramps", metadata)


def test_what_was_active_before_and_is_not_now_ramps_after_its_activation() -> None:
    """It would serve nobody."""
    check(to(500), rollout(shop()), "shop is not active in shop; activate it, or roll back to it")


@pytest.mark.parametrize(("role", "named"), [("viewer", "viewer"), ("", "(none)")])
def test_a_raise_takes_an_operator(role: str, named: str) -> None:
    """The metadata names the role that is missing."""
    with pytest.raises(RoleRequired) as refused:
        to(500, role)(rollout(shop(), active="shop"), Digest("sha256:shop"))
    assert str(refused.value) == f"the role {named} may lower a ramp, not raise it; a raise needs: operator"
    assert dict(refused.value.metadata) == {"cause": "role", "roles": "operator"}


def test_the_first_step_is_never_to_the_whole() -> None:
    """A share first."""
    of = rollout(shop(activated_at=None))
    check(to(WHOLE), of, "the first step of shop must be below 100 %", {REMEDY: Remedy.FIRST_RAMP})


def test_an_open_breach_holds_a_raise_up() -> None:
    """The metadata names the breach."""
    check(
        to(500),
        rollout(shop(breach=BREACH), active="shop"),
        "shop was ramped down by breach b-1; acknowledge it before the next step",
        {"breach_id": "b-1", REMEDY: Remedy.ACKNOWLEDGE},
    )


def test_a_raise_takes_a_declared_step() -> None:
    """Shares are in percent, as operators write them."""
    check(
        to(510),
        rollout(shop(), active="shop", curve=(50, 500, WHOLE)),
        "5.1 % is not a declared step of shop; its curve is: 0.5 %, 5 %, 100 %",
        {REMEDY: Remedy.DECLARED_RAMP},
    )


@pytest.mark.parametrize("state", [DEV, TEST, ROLLBACK])
def test_a_ramp_down_needs_a_ramp(state: LifecycleState) -> None:
    """Only `promote` has one."""
    check(down("b-1"), rollout(shop(state)), f"shop is in {state}; there is no ramp")


@pytest.mark.parametrize(
    ("breach", "named", "why"),
    [
        (None, "b-1", "shop has no open breach: there is nothing to acknowledge"),
        (BREACH, "b-2", "shop has the open breach 'b-1', not 'b-2'"),
        (BREACH, "x" * 65, f"shop has the open breach 'b-1', not '{'x' * 64}'"),
    ],
)
def test_only_the_open_breach_is_acknowledged(breach: Breach | None, named: str, why: str) -> None:
    """What a caller wrote is cut."""
    check(note(named), rollout(shop(breach=breach), active="shop"), why)


def test_a_slot_is_emptied_before_another_definition_is_activated() -> None:
    """Also before the same one is."""
    of = rollout(shop(), active="shop")
    check(activate, of, "shop is not empty; roll its active definition back first")


@pytest.mark.parametrize(
    "unusable",
    [
        shop(TEST, activated_at=NOW),
        shop(ROLLBACK, activated_at=NOW),
        shop(killed=Tombstone(NOW, "ada", "wrong")),
        shop(activated_at=None),
    ],
)
def test_only_what_was_active_and_is_promoted_is_activated(unusable: DefinitionFacts) -> None:
    """Each condition alone."""
    why = f"shop is in {unusable.state} and cannot serve; only one that was active in `promote` can"
    helps = {TEST: {REMEDY: Remedy.PROMOTE}, ROLLBACK: {REMEDY: Remedy.NEW_DEFINITION}}
    check(activate, rollout(unusable), why, helps.get(unusable.state, NO_METADATA))


@pytest.mark.parametrize(
    ("of", "step", "why"),
    [
        (shop(DEV), kill, "shop is in dev: it serves no user"),
        (
            shop(ROLLBACK, decommission_began_at=NOW),
            kill,
            "shop is being decommissioned: it serves no user",
        ),
        (
            shop(TEST, flags=FlagPair.NONE),
            kill,
            "shop is in test, and its kill flag ai_assistant_subagent_shop was never created, or cannot be seen;"
            " it serves no user: roll it back, which needs no flag",
        ),
    ],
)
def test_a_kill_that_would_reach_nobody_is_refused(of: DefinitionFacts, step: Step, why: str) -> None:
    """And says why nobody is served."""
    check(step, rollout(of), why)


@pytest.mark.parametrize(
    ("state", "gate", "ramp", "why"),
    [
        (PROMOTE, PRE_FULL, 550, "the step to 5.5 % does not need pre_full; it needs: pre_ramp"),
        (PROMOTE, PRE_RAMP, 0, "the step to 0 % does not need pre_ramp; it needs: none"),
        (PROMOTE, PRE_MERGE, WHOLE, "the step to 100 % does not need pre_merge; it needs: pre_ramp, pre_full"),
        (TEST, PRE_RAMP, 500, "the step to 5 % does not need pre_ramp; it needs: pre_merge"),
        (DEV, PRE_MERGE, 0, "the step to 0 % does not need pre_merge; it needs: none"),
        (ROLLBACK, PRE_RAMP, 500, "the step to 5 % does not need pre_ramp; it needs: none"),
    ],
)
def test_a_gate_is_overridden_for_a_step_that_needs_it_only(
    state: LifecycleState, gate: str, ramp: int, why: str
) -> None:
    """The gates it needs are listed."""
    check(let_pass(gate, ramp), rollout(shop(state, breach=BREACH)), why)


@pytest.mark.parametrize("minutes", [0, -1])
def test_an_override_ends_in_the_future(minutes: int) -> None:
    """This moment is over."""
    of = rollout(shop(), active="shop")
    check(let_pass(PRE_RAMP, 500, minutes), of, "the override has expired already; set a later time")


@pytest.mark.parametrize(("ramp", "active"), [(WHOLE - 1, "shop"), (WHOLE, None)])
def test_flags_are_needed_until_everybody_is_served(ramp: int, active: str | None) -> None:
    """At 99.99 %, and inactive at 100 %."""
    check(retire, rollout(shop(ramp=ramp), active=active), "shop does not serve all users; its flags are still needed")
