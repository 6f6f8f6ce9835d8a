"""Each step of a rollout, whole: the rollout after it, and every row that the audit gets."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from sidecar.core.errors import TransitionRefused
from sidecar.core.rollout import transitions
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.events import AuditCohort, RolloutEvent, RolloutEventKind, TransitionEvent
from sidecar.core.rollout.facts import Breach, DefinitionFacts, FlagPair, Override, SlotRollout, Tombstone
from sidecar.core.rollout.states import LifecycleState, Trigger
from sidecar.core.rollout.step import Actor, Change
from sidecar.core.rollout.transitions import PRE_FULL, PRE_MERGE, PRE_RAMP
from tests.support.requirement import requirement
from tests.unit.rollout.building import NOW, SHOP, by, facts, rollout, with_target

DEV, TEST, PROMOTE, ROLLBACK = LifecycleState
BY = by()
FLAG = "ai_assistant_subagent_shop"
LATER = NOW + timedelta(hours=1)
BREACH = Breach("b-1", NOW, "too slow")


def row(of: DefinitionFacts, what: RolloutEventKind, **fields: Any) -> RolloutEvent:
    """Return the audit row of a step that `BY` took."""
    return RolloutEvent(
        slot=SHOP,
        subagent_id=of.definition_id,
        digest=of.digest,
        what=what,
        at=NOW,
        actor=BY.actor,
        actor_role=BY.actor_role,
        reason=BY.reason,
        request_id=BY.request_id,
        **fields,
    )


def move(of: DefinitionFacts, target: LifecycleState, trigger: Trigger, ramp: float = 0.0) -> TransitionEvent:
    """Return the audit row of a transition that `BY` caused."""
    return TransitionEvent(
        slot=SHOP,
        subagent_id=of.definition_id,
        digest=of.digest,
        source_state=of.state,
        target_state=target,
        trigger=trigger,
        agent_definition_commit=of.commit,
        cohort=AuditCohort(BY.definition_version, BY.active_flags, ramp),
        at=NOW,
        actor=BY.actor,
        actor_role=BY.actor_role,
        reason=BY.reason,
        request_id=BY.request_id,
    )


def after(of: SlotRollout, definition: DefinitionFacts, **fields: Any) -> SlotRollout:
    """Return the rollout one revision later, with other facts of one definition."""
    return msgspec.structs.replace(of.with_facts(definition), revision=of.revision + 1, **fields)


def but(of: DefinitionFacts, **fields: Any) -> DefinitionFacts:
    """Return facts with some replaced."""
    return msgspec.structs.replace(of, **fields)


def granted(gate: str, start: int, to: int) -> Override:
    """Return an override that holds for an hour."""
    return Override(gate, start, to, "ada@example", "because", LATER)


@requirement("PF1-D-5")
def test_a_definition_goes_to_test_on_the_word_of_its_developer() -> None:
    """The operator is the trigger; nothing but the state changes."""
    shop = facts("shop", DEV, flags=FlagPair.NONE)
    of = rollout(shop)
    assert transitions.to_test(of, shop.digest, BY) == Change(
        after(of, but(shop, state=TEST)), (move(shop, TEST, Trigger.OPERATOR),)
    )


def test_a_promotion_starts_at_zero_with_flags_that_are_off_and_uses_its_override_up() -> None:
    """The gate is the trigger; an override of another step stays. A ramp that it should not have is not taken over."""
    used, other = granted(PRE_MERGE, 7, 0), granted(PRE_RAMP, 0, 500)
    shop = facts("shop", TEST, flags=FlagPair.NONE, ramp=7, overrides=(used, other))
    of = rollout(shop)
    assert transitions.promote(of, shop.digest, BY) == Change(
        after(of, but(shop, state=PROMOTE, ramp=0, flags=FlagPair.CREATED, overrides=(other,))),
        (move(shop, PROMOTE, Trigger.GATE),),
        (row(shop, RolloutEventKind.FLAGS_CREATED),),
    )


@pytest.mark.parametrize(
    ("ramp", "breach", "to", "gates"),
    [
        (0, None, 1, (PRE_RAMP,)),
        (500, None, WHOLE - 1, (PRE_RAMP,)),
        (500, None, WHOLE, (PRE_FULL,)),
        (0, BREACH, 500, (PRE_RAMP,)),
        (0, BREACH, WHOLE, (PRE_RAMP, PRE_FULL)),
        (500, BREACH, 500, ()),
        (500, None, 499, ()),
        (WHOLE, None, 0, ()),
    ],
)
def test_the_gates_of_a_step_are_those_of_where_it_leads(
    ramp: int, breach: Breach | None, to: int, gates: tuple[str, ...]
) -> None:
    """None to lower; after a breach `pre_ramp` comes first, whatever the step."""
    assert transitions.gates_of_step(facts("shop", ramp=ramp, breach=breach), to) == gates


@requirement("PF1-D-64")
@pytest.mark.parametrize("flag", [FLAG, None])
def test_the_first_step_makes_a_definition_active_and_switches_its_flags_on(flag: str | None) -> None:
    """The one that served before is its recorded target; a definition without flags has none to switch."""
    flags = FlagPair.CREATED if flag else FlagPair.NONE
    new = facts("shop", flag=flag, flags=flags, activated_at=None, overrides=(granted(PRE_RAMP, 0, 500),))
    of = rollout(facts("old", ramp=WHOLE), new, active="old")
    first = but(
        new,
        ramp=500,
        overrides=(),
        activated_at=NOW,
        target=of.active,
        target_recorded=True,
        **({"flags": FlagPair.ON, "confirmed_on": FLAG, "confirmed_at": NOW} if flag else {}),
    )
    switched = (row(new, RolloutEventKind.FLAGS_ON),) if flag else ()
    assert transitions.set_ramp(of, new.digest, 500, BY) == Change(
        after(of, first, active=new.digest, salt="shop/shop"),
        (),
        (
            row(new, RolloutEventKind.RAMP_SET, before=0, after=500),
            *switched,
            row(new, RolloutEventKind.ACTIVATED, detail="salt shop/shop"),
        ),
    )


def test_a_raise_ends_an_acknowledged_breach_and_uses_its_override_up() -> None:
    """An override of another step stays."""
    other = granted(PRE_FULL, 500, WHOLE)
    noted = but(facts("shop", ramp=500, overrides=(granted(PRE_RAMP, 500, 2500), other)), breach=BREACH)
    shop = but(noted, breach=msgspec.structs.replace(BREACH, acknowledged_by="ada@example"))
    of = rollout(shop, active="shop", curve=(500, 2500))
    assert transitions.set_ramp(of, shop.digest, 2500, BY) == Change(
        after(of, but(shop, ramp=2500, breach=None, overrides=(other,))),
        (),
        (row(shop, RolloutEventKind.RAMP_SET, before=500, after=2500),),
    )


def test_a_raise_switches_on_the_flags_that_a_revision_has_named_and_a_lowering_does_not() -> None:
    """From then on their fall is an edge."""
    shop = facts("shop", ramp=500, flags=FlagPair.NAMED)
    of = rollout(shop, active="shop")
    assert transitions.set_ramp(of, shop.digest, 600, BY) == Change(
        after(of, but(shop, ramp=600, flags=FlagPair.ON, confirmed_on=FLAG, confirmed_at=NOW)),
        (),
        (row(shop, RolloutEventKind.RAMP_SET, before=500, after=600), row(shop, RolloutEventKind.FLAGS_ON)),
    )
    assert transitions.set_ramp(of, shop.digest, 400, BY) == Change(
        after(of, but(shop, ramp=400)), (), (row(shop, RolloutEventKind.RAMP_SET, before=500, after=400),)
    )


@pytest.mark.parametrize("role", ["viewer", ""])
def test_a_lowering_keeps_breach_and_overrides_and_takes_no_role_and_no_declared_step(role: str) -> None:
    """An unacknowledged breach does not hold it up."""
    shop = facts("shop", ramp=2500, breach=BREACH, overrides=(granted(PRE_RAMP, 2500, 700),))
    of = rollout(shop, active="shop", curve=(500, 2500))
    events = transitions.set_ramp(of, shop.digest, 700, msgspec.structs.replace(BY, actor_role=role))
    assert events.rollout == after(of, but(shop, ramp=700))


def test_every_declared_step_may_be_taken_and_the_whole_after_the_first() -> None:
    """Bounds are part of the range."""
    shop = facts("shop", ramp=500)
    of = rollout(shop, active="shop", curve=(500, WHOLE))
    assert transitions.set_ramp(of, shop.digest, WHOLE, BY).rollout.definitions[shop.digest].ramp == WHOLE
    assert transitions.set_ramp(of, shop.digest, 0, BY).rollout.definitions[shop.digest].ramp == 0


@requirement("PF1-D-31")
@pytest.mark.parametrize(("open_breach", "ramp"), [(None, 500), (None, 0), (BREACH, 500), (Breach("b-0", NOW, "x"), 0)])
def test_a_breach_sets_the_ramp_to_zero_and_nothing_else(open_breach: Breach | None, ramp: int) -> None:
    """Active, flags and target stay; a second breach replaces the first."""
    shop = facts("shop", ramp=ramp, breach=open_breach)
    of = rollout(shop, active="shop")
    assert transitions.ramp_down(of, shop.digest, "b-1", BY) == Change(
        after(of, but(shop, ramp=0, breach=Breach("b-1", NOW, "because"))),
        (),
        (row(shop, RolloutEventKind.RAMPED_DOWN, before=ramp, after=0, detail="b-1"),),
    )


def test_a_breach_is_acknowledged_by_name() -> None:
    """The breach stays on record until the next raise; the row names it."""
    shop = facts("shop", breach=BREACH)
    of = rollout(shop, active="shop")
    assert transitions.acknowledge(of, shop.digest, "b-1", BY) == Change(
        after(of, but(shop, breach=msgspec.structs.replace(BREACH, acknowledged_by="ada@example"))),
        (),
        (row(shop, RolloutEventKind.BREACH_ACKNOWLEDGED, detail="b-1"),),
    )


def test_an_empty_slot_gets_a_definition_back_at_its_own_ramp() -> None:
    """Nothing but `active` changes."""
    shop = facts("shop", ramp=2500)
    of = rollout(shop)
    assert transitions.activate(of, shop.digest, BY) == Change(
        after(of, shop, active=shop.digest), (), (row(shop, RolloutEventKind.ACTIVATED, before=2500, after=2500),)
    )


@pytest.mark.parametrize(("active", "left"), [("shop", None), ("old", "old")])
def test_a_kill_empties_the_slot_of_the_killed_definition_only(active: str, left: str | None) -> None:
    """The row of the transition holds the ramp it had; the ramp itself is 0 from then on."""
    shop = with_target(facts("shop", ramp=2500), "old")
    of = rollout(facts("old", ramp=WHOLE), shop, active=active)
    dead = but(shop, state=ROLLBACK, ramp=0, killed=Tombstone(NOW, "ada@example", "because"))
    assert transitions.kill(of, shop.digest, BY) == Change(
        after(of, dead, active=None if left is None else of.active),
        (move(shop, ROLLBACK, Trigger.KILL_SWITCH, 25.0),),
        (row(shop, RolloutEventKind.KILLED),),
    )


CREATED = (FlagPair.CREATED, FlagPair.ON, FlagPair.RETIRED)


@pytest.mark.parametrize("state", LifecycleState)
@pytest.mark.parametrize("pair", FlagPair)
@pytest.mark.parametrize("flag_exists", [True, False])
def test_what_a_kill_reaches(state: LifecycleState, pair: FlagPair, flag_exists: bool) -> None:
    """In `promote` always; in `test` a kill flag only if there is one; in `rollback` it is done; in `dev` never."""
    shop = facts("shop", state, flags=pair)
    of = rollout(shop)
    switchable = flag_exists or pair in CREATED
    refused = state is DEV or (state is TEST and not switchable)

    assert transitions.may_be_killed(shop) == (state is PROMOTE or (state is TEST and pair in CREATED))
    if refused:
        with pytest.raises(TransitionRefused):
            transitions.kill(of, shop.digest, BY, flag_exists=flag_exists)
        return
    change = transitions.kill(of, shop.digest, BY, flag_exists=flag_exists)
    assert bool(change.events) == (state is not ROLLBACK)
    if state is ROLLBACK:
        assert change == Change(of)


def test_a_kill_flag_has_to_be_known_to_exist_if_the_caller_does_not_say() -> None:
    """Without a word on it, the definition's own flags decide."""
    shop = facts("shop", TEST, flags=FlagPair.NONE)
    with pytest.raises(TransitionRefused):
        transitions.kill(rollout(shop), shop.digest, BY)


@pytest.mark.parametrize(("state", "gate", "to"), [(TEST, PRE_MERGE, 0), (PROMOTE, PRE_RAMP, 500)])
def test_an_override_is_granted_for_one_step_and_sweeps_expired_ones(state: LifecycleState, gate: str, to: int) -> None:
    """One that expires at this moment has expired."""
    expired = Override(PRE_RAMP, 0, 1, "bob@example", "once", NOW)
    kept = granted(PRE_FULL, 1, WHOLE)
    shop = facts("shop", state, ramp=10, overrides=(expired, kept))
    of = rollout(shop)
    added = Override(gate, 10, to, "ada@example", "because", LATER)
    assert transitions.override(of, shop.digest, BY, gate=gate, to=to, expires_at=LATER) == Change(
        after(of, but(shop, overrides=(kept, added))),
        (),
        (row(shop, RolloutEventKind.GATE_OVERRIDDEN, before=10, after=to, detail=gate),),
    )


@requirement("PF1-D-35")
@pytest.mark.parametrize("dropped", [True, False])
def test_flags_retire_at_the_whole_and_a_dropped_one_is_forgotten(dropped: bool) -> None:
    """An entry that names its flag still keeps the name."""
    shop = facts("shop", ramp=WHOLE, flag_dropped=dropped)
    of = rollout(shop, active="shop")
    retired = but(shop, flags=FlagPair.RETIRED, flag=None if dropped else FLAG, flag_dropped=False)
    assert transitions.retire_flags(of, shop.digest, BY) == Change(
        after(of, retired), (), (row(shop, RolloutEventKind.FLAGS_RETIRED),)
    )


@pytest.mark.parametrize(
    ("of", "step"),
    [
        (facts("shop", ramp=500), lambda of, digest: transitions.set_ramp(of, digest, 500, BY)),
        (facts("shop", ramp=0, breach=BREACH), lambda of, digest: transitions.ramp_down(of, digest, "b-1", BY)),
        (
            facts("shop", breach=msgspec.structs.replace(BREACH, acknowledged_by="bob")),
            lambda of, digest: transitions.acknowledge(of, digest, "b-1", BY),
        ),
        (facts("shop", ROLLBACK), lambda of, digest: transitions.kill(of, digest, BY)),
        (
            facts("shop", ramp=WHOLE, flags=FlagPair.RETIRED),
            lambda of, digest: transitions.retire_flags(of, digest, BY),
        ),
    ],
)
def test_a_repeated_step_changes_nothing(of: DefinitionFacts, step: Any) -> None:
    """No revision, no row."""
    slot = rollout(of, active="shop" if of.state is PROMOTE else None)
    assert step(slot, of.digest) == Change(slot)


def test_who_takes_a_step_is_on_each_of_its_rows() -> None:
    """Subject, key, role, reason and request of the caller, whatever they are."""
    caller = Actor(
        actor="eve@example", actor_key="k-1", actor_role="operator", reason="tried", request_id="r-9", at=LATER
    )
    shop = facts("shop", ramp=500)
    (event,) = transitions.set_ramp(rollout(shop, active="shop"), shop.digest, 600, caller).events
    assert (event.actor, event.actor_key, event.actor_role) == ("eve@example", "k-1", "operator")
    assert (event.reason, event.request_id, event.at) == ("tried", "r-9", LATER)
