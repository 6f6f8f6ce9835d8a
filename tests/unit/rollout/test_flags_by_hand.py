"""A flag switched by hand: a pause and its end, a kill; never more than the ramp has reached."""

from typing import Any

import pytest

from sidecar.core.errors import RequestIdReused, RevisionConflict, StoreUnavailable, SubagentsError, TransitionRefused
from sidecar.core.rollout.facts import FlagPair
from sidecar.core.rollout.manual_flags import FlagKind
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.definition_lookup import DefinitionMatch
from sidecar.operations.rollout.requests import SwitchFlag
from sidecar.operations.rollout.store.ports import StopKind, StoredFlag
from tests.support.builders import a_card
from tests.support.embedded_flags import EmbeddedReplica, EmbeddedReplicas, off, on
from tests.support.requirement import requirement
from tests.support.stopping import BEGIN, REWARDS, SHOP, a_kill

KILL, COHORT = "ai_assistant_subagent_shop", "ai_assistant_subagent_shop_cohort"


def serving(**facts: Any) -> EmbeddedReplicas:
    """Return a store in which `shop` serves everybody behind its flags."""
    bench = EmbeddedReplicas()
    bench.serve(SHOP, **facts)
    return bench


async def refused(replica: EmbeddedReplica, asked: SwitchFlag) -> SubagentsError:
    """Ask for what has to be refused."""
    with pytest.raises(SubagentsError) as error:
        await replica.switch_flag(asked, "ada")
    return error.value


@requirement("PF1-D-7")
async def test_a_pause_and_its_end_leave_state_and_ramp_and_are_on_the_audit() -> None:
    """The cohort flag off and on again: who, why, which flag, before and after; nothing else changes."""
    bench = serving(ramp=2500)
    replica = await bench.start()
    before = bench.facts(SHOP)

    paused = await replica.switch_flag(off(SHOP), "ada")
    shown = replica.snapshots.current().active_flags(frozenset({KILL, COHORT}))
    resumed = await replica.switch_flag(on(SHOP), "bob")
    await replica.look()

    assert (paused.changed, paused.state, paused.ramp) == (True, "promote", 2500)
    assert paused.flag is not None
    assert (paused.flag.before.value, paused.flag.after.value, paused.flag.version) == ("on", "off", 2)
    assert (paused.flag.backend, paused.version) == ("embedded", bench.contents.version - 1)
    assert "serves no user until the flag is on again; state and ramp (25 %) stay" in paused.flag.affected[0].words
    assert shown == (KILL,)
    assert resumed.flag is not None
    assert (resumed.flag.after.value, bench.contents.flags[COHORT].changed_by) == ("on", "bob")
    assert bench.facts(SHOP) == before
    told = [(each.what.value, each.actor, each.reason, each.detail) for each in bench.happened()]
    assert told == [
        ("flag_switched", "ada", "it talks too much", f"cohort flag {COHORT}: on -> off"),
        ("flag_switched", "bob", "it is mended", f"cohort flag {COHORT}: off -> on"),
    ]
    assert bench.transitions() == []


@requirement("PF1-D-25")
async def test_a_kill_flag_switched_off_is_one_kill_and_the_audit_says_who_switched_it() -> None:
    """Two replicas see the fall; before the kill by the switch stands the switch by a person."""
    bench = serving()
    one, two = await bench.start("one"), await bench.start("two")

    answer = await one.switch_flag(off(SHOP, FlagKind.KILL), "ada")
    for replica in (two, one, two):
        await replica.look()

    assert answer.flag is not None
    assert "kills it permanently" in answer.flag.affected[0].words
    assert bench.facts(SHOP).state is LifecycleState.ROLLBACK
    assert [(each.actor, each.target_state) for each in bench.transitions()] == [("kill-switch", "rollback")]
    assert [(each.what.value, each.actor) for each in bench.happened()] == [
        ("flag_switched", "ada"),
        ("killed", "kill-switch"),
    ]


async def test_a_kill_flag_that_fell_is_not_switched_on_again() -> None:
    """Neither before the fall was seen, nor afterwards: a kill is for good."""
    bench = serving()
    replica = await bench.start()
    await replica.switch_flag(off(SHOP, FlagKind.KILL), "ada")
    early = await refused(replica, on(SHOP, FlagKind.KILL))
    await replica.look()
    late = await refused(replica, on(SHOP, FlagKind.KILL, "on-2"))

    assert "was switched off, which kills shop" in early.message
    assert "is in rollback" in late.message
    assert not bench.contents.flags[KILL].on


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"state": LifecycleState.DEV, "flags": FlagPair.NAMED, "activated_at": None}, "is in dev"),
        ({"state": LifecycleState.TEST, "flags": FlagPair.NAMED, "activated_at": None}, "is in test"),
        ({"flags": FlagPair.CREATED, "ramp": 0, "activated_at": None}, "its ramp has not switched its flags on"),
        ({"flags": FlagPair.NAMED}, "its ramp has not switched its flags on"),
        ({"state": LifecycleState.ROLLBACK}, "is in rollback"),
        ({"flags": FlagPair.RETIRED}, "are retired"),
        ({"flags": FlagPair.NONE, "flag": None}, "names no flag"),
    ],
)
async def test_no_flag_goes_on_that_the_ramp_has_not_switched_on(facts: dict[str, Any], words: str) -> None:
    """Whatever the state: it is refused, kept as refused, and no flag is created or switched."""
    bench = serving(**facts)
    for name in (KILL, COHORT):
        bench.put(name, on=False)
    flags = dict(bench.contents.flags)
    replica = await bench.start()

    error = await refused(replica, on(SHOP))
    again = await refused(replica, on(SHOP))

    assert words in error.message
    assert isinstance(error, TransitionRefused)
    assert (again.message, again.metadata) == (error.message, {"repeated": "true"})
    assert bench.contents.flags == flags
    assert [(each.what.value, each.sought) for each in bench.happened()] == [("refused", "SwitchFlagOn cohort")]


async def test_a_flag_that_nobody_created_is_created_neither_on_nor_off() -> None:
    """Off it is already; on is left to promotion and ramp, which ask the gates."""
    bench = serving(confirmed_on="")
    bench.contents.flags.clear()
    replica = await bench.start()

    error = await refused(replica, on(SHOP))
    paused = await replica.switch_flag(off(SHOP), "ada")

    assert "does not exist: only promotion and the ramp create flags" in error.message
    assert (paused.changed, bench.contents.flags) == (False, {})


async def test_a_flag_that_a_definition_beside_has_not_earned_stays_off() -> None:
    """A revision in `promote` names the same flag: with it on, that one would serve without the raise that it needs."""
    bench = serving()
    bench.serve(REWARDS, flag=KILL, flags=FlagPair.NAMED, ramp=5000)
    bench.put(COHORT, on=False)
    replica = await bench.start()

    error = await refused(replica, on(SHOP))

    assert "is a flag of rewards in rewards, too, whose ramp has not switched it on" in error.message


async def test_the_answer_names_everybody_behind_a_shared_flag() -> None:
    """A major change under the same id: the old definition serves, the new one is in `promote` at 0 %."""
    bench = serving()
    changed = a_card("shop", model="another")
    assert changed.digest != SHOP.digest
    bench.serve(changed, slot="shop", ramp=0, activated_at=None, flags=FlagPair.CREATED)
    bench.put(KILL, on=True)
    bench.put(COHORT, on=True)
    replica = await bench.start()

    answer = await replica.switch_flag(off(SHOP, FlagKind.KILL), "ada")

    assert answer.flag is not None
    assert {each.digest: "kills it permanently" in each.words for each in answer.flag.affected} == {
        SHOP.digest: True,
        changed.digest: False,
    }
    assert answer.digest == SHOP.digest


async def test_a_pause_that_would_kill_somebody_else_is_refused() -> None:
    """The cohort flag of one is the kill flag of another."""
    bench = serving()
    bench.serve(REWARDS, flag=COHORT)
    replica = await bench.start()

    error = await refused(replica, off(SHOP))

    assert "is the kill flag of rewards: off, it kills that; set the ramp to 0 instead" in error.message
    assert bench.contents.flags[COHORT].on


async def test_a_request_is_taken_once_and_another_one_cannot_use_its_id() -> None:
    """Repeated after somebody has switched the flag on again: it is answered as before, and nothing is switched."""
    bench = serving()
    replica = await bench.start()
    first = await replica.switch_flag(off(SHOP), "ada")
    await replica.switch_flag(on(SHOP), "bob")

    again = await replica.switch_flag(off(SHOP), "ada")
    error = await refused(replica, off(SHOP, FlagKind.KILL))

    assert (again.repeated, again.flag) == (True, first.flag)
    assert isinstance(error, RequestIdReused)
    assert bench.contents.flags[COHORT].on
    assert len(bench.happened()) == 2


async def test_what_is_off_already_changes_nothing_and_a_dry_run_neither() -> None:
    """No event, no new version of the flag."""
    bench = serving()
    replica = await bench.start()
    dry = await replica.switch_flag(off(SHOP, dry_run=True), "ada")
    untouched = dict(bench.contents.flags)
    await replica.switch_flag(off(SHOP), "ada")
    idle = await replica.switch_flag(off(SHOP, request_id="off-2"), "ada")

    assert (dry.changed, idle.changed) == (False, False)
    assert untouched[COHORT].on
    assert (bench.contents.flags[COHORT].revision, len(bench.happened())) == (2, 1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"expected_version": 7}, "the flag ai_assistant_subagent_shop_cohort has version 1, not 7"),
        ({"expected_revision": 7}, "the rollout of shop has revision 1, not 7"),
    ],
)
async def test_a_switch_of_another_state_than_was_read_is_refused(fields: dict[str, Any], words: str) -> None:
    """Compared and set: of the flag, and of the rollout that it gates."""
    bench = serving()
    replica = await bench.start()

    error = await refused(replica, off(SHOP, **fields))

    assert isinstance(error, RevisionConflict)
    assert words in error.message
    assert bench.contents.flags[COHORT].on


async def test_a_switch_off_is_laid_out_anew_if_somebody_was_quicker_and_one_on_is_not() -> None:
    """Nothing holds a pause up; who brings users back has to look again."""
    for asked, ends in ((off(SHOP), True), (on(SHOP), False)):
        bench = serving()
        bench.put(COHORT, on=isinstance(asked, type(off(SHOP))))
        replica = await bench.start()
        write, raced = replica.store.write, list[Any]()

        async def quicker(change: Any, bench: EmbeddedReplicas = bench, write: Any = write, raced: Any = raced) -> None:
            if not raced:
                raced.append(change)
                flag = bench.contents.flags[COHORT]
                kept = StoredFlag(COHORT, flag.on, flag.revision + 1, BEGIN, "somebody")
                bench.contents.set_flag(kept, flag.revision)
            await write(change)

        replica.store.write = quicker  # type: ignore[method-assign]  # somebody else is at work
        if ends:
            assert (await replica.switch_flag(asked, "ada")).changed
        else:
            assert isinstance(await refused(replica, asked), RevisionConflict)


async def test_with_the_store_away_nothing_is_switched_and_the_caller_knows() -> None:
    """Embedded flags live there; `Kill` and `RampDown` hold without it."""
    bench = serving()
    replica = await bench.start()
    replica.store.away = True

    assert isinstance(await refused(replica, off(SHOP, FlagKind.KILL)), StoreUnavailable)
    assert bench.contents.flags[KILL].on


async def test_what_was_killed_here_and_is_not_on_record_yet_is_not_switched_on() -> None:
    """The record still says `promote`."""
    bench = serving()
    bench.put(COHORT, on=False)
    replica = await bench.start()
    here = DefinitionMatch(bench.contents.rollouts[SHOP.definition.slot], bench.facts(SHOP))
    first = replica.stops.first
    await first.tombstones.add(first.stop_of(a_kill(SHOP), StopKind.KILL, here, "ada"))

    assert "was killed here" in (await refused(replica, on(SHOP))).message
