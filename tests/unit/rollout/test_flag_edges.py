"""A kill flag that falls kills; a flag that was never up, or that nobody can see, does not."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.adapters.flags_memory import FlagFault
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.facts import FlagPair
from sidecar.core.rollout.states import LifecycleState, Trigger
from tests.support.requirement import requirement
from tests.support.stopping import SHOP, Rollouts, a_kill

FLAG = "ai_assistant_subagent_shop"
JUST_NOW = Rollouts().clock.now()


@requirement("PF1-D-25")
async def test_a_flag_that_falls_kills_once_over_all_replicas() -> None:
    """Three replicas see the same edge: one event, by the kill switch, and one count."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replicas = [await rollouts.replica(name) for name in "abc"]

    rollouts.backend.set(FLAG, on=False)
    for replica in replicas * 2:
        await replica.look()

    (event,) = rollouts.transitions()
    assert (event.trigger, event.target_state) == (Trigger.KILL_SWITCH, LifecycleState.ROLLBACK)
    assert rollouts.happened() == ["killed"]
    assert sum(len(replica.recorder.of("kill_switch_fired")) for replica in replicas) == 1


async def test_a_flag_that_a_revision_named_in_promote_kills_when_it_falls() -> None:
    """Nobody but its owner ever switched it on; it is the kill switch all the same."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, flags=FlagPair.NAMED, confirmed_on="")
    rollouts.backend.set(FLAG, on=True)
    replica = await rollouts.replica()
    rollouts.clock.seconds += 1
    await replica.look()
    rollouts.backend.set(FLAG, on=False)
    await replica.look()
    assert [event.trigger for event in rollouts.transitions()] == [Trigger.KILL_SWITCH]


async def test_a_first_seen_off_is_no_edge() -> None:
    """Promoted with its flags created off: they were never on."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, flags=FlagPair.CREATED, ramp=0)
    replica = await rollouts.replica()
    for _ in range(3):
        await replica.look()
    assert (rollouts.transitions(), replica.tombstones.all()) == ([], frozenset())


@pytest.mark.parametrize("recorded", [FLAG, ""], ids=["the record knows", "only this sidecar knows"])
async def test_on_then_unreachable_then_off_is_an_edge_and_unreachable_alone_is_none(recorded: str) -> None:
    """The backend is away for long enough to be stale, which moves nothing; then it says off."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, confirmed_on=recorded)
    replica = await rollouts.replica()
    rollouts.clock.seconds += 1
    await replica.look()
    replica.away(backend=True)
    rollouts.backend.set(FLAG, on=False)
    for _ in range(5):
        rollouts.clock.seconds += 20
        await replica.look()
    assert rollouts.transitions() == []
    replica.away()
    await replica.look()
    assert len(rollouts.transitions()) == 1


async def test_a_flag_that_fell_while_no_sidecar_looked_is_an_edge() -> None:
    """It was on when the ramp began, which is on record; the process that starts now finds it off."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    rollouts.backend.set(FLAG, on=False)
    replica = await rollouts.replica()
    await replica.look()
    assert len(rollouts.transitions()) == 1


async def test_an_off_that_only_the_record_makes_an_edge_waits_until_the_backend_has_settled() -> None:
    """A backend that still tells the state of before the switch must not kill what has just been ramped."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, activated_at=JUST_NOW)
    rollouts.backend.set(FLAG, on=False)
    replica = await rollouts.replica()
    await replica.look()
    assert rollouts.transitions() == []
    rollouts.clock.seconds += 31
    await replica.look()
    assert len(rollouts.transitions()) == 1


async def test_a_flag_that_was_switched_on_just_now_settles_first_however_long_the_definition_serves() -> None:
    """A revision has named another one; a backend that still tells the state of before must not kill."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, confirmed_at=JUST_NOW)
    rollouts.backend.set(FLAG, on=False)
    replica = await rollouts.replica()
    await replica.look()
    assert rollouts.transitions() == []
    rollouts.clock.seconds += 31
    await replica.look()
    assert len(rollouts.transitions()) == 1


@pytest.mark.parametrize(("confirmed_by", "killed"), [("memory", True), ("", True), ("another", False)])
async def test_an_off_is_an_edge_by_the_record_only_at_the_backend_that_confirmed_it_on(
    confirmed_by: str, killed: bool
) -> None:
    """A vertical was given another backend, which has never heard of the flag: nobody switched anything off."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, confirmed_by=confirmed_by)
    rollouts.backend.set(FLAG, on=False)
    replica = await rollouts.replica()
    rollouts.clock.seconds += 60
    await replica.look()
    assert [event.trigger for event in rollouts.transitions()] == ([Trigger.KILL_SWITCH] if killed else [])


async def test_a_definition_that_moves_to_another_vertical_is_watched_anew() -> None:
    """What the backend of the vertical before said of its flag does not make an edge at that of the next."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    await replica.look()
    rollouts.revise(SHOP, vertical=Vertical("elsewhere"), flags=FlagPair.NAMED, confirmed_on="")
    await replica.views.look()
    rollouts.backend.set(FLAG, on=False)
    rollouts.clock.seconds += 60
    await replica.look()
    assert rollouts.transitions() == []


async def test_what_was_asked_of_a_backend_before_the_state_was_known_is_no_confirmation() -> None:
    """The flag was on from earlier times, the promotion set it off, and an old answer comes in late."""
    rollouts = Rollouts()
    rollouts.backend.set(FLAG, on=True)
    replica = await rollouts.replica()
    await replica.snapshots.refresh_all()
    rollouts.serve(SHOP, flags=FlagPair.CREATED, ramp=0)
    await replica.views.look()
    replica.stops.edges.observe()
    rollouts.backend.set(FLAG, on=False)
    await replica.look()
    assert rollouts.transitions() == []


async def test_a_flag_that_falls_and_rises_between_two_looks_of_the_loop_is_an_edge() -> None:
    """The observer of the snapshots sees each of them."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    for on in (False, True):
        rollouts.backend.set(FLAG, on=on)
        await replica.snapshots.refresh_all()
    await replica.stops.edges.look()
    assert len(rollouts.transitions()) == 1


async def test_a_cohort_flag_that_falls_moves_nothing() -> None:
    """It is an exposure of 0, and may rise again (TN-82)."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    for on in (False, True, False):
        rollouts.backend.set(f"{FLAG}_cohort", on=on)
        await replica.look()
    assert (rollouts.transitions(), rollouts.facts(SHOP).state) == ([], LifecycleState.PROMOTE)


@pytest.mark.parametrize(
    "fields",
    [
        {"state": LifecycleState.DEV},
        {"state": LifecycleState.TEST, "flags": FlagPair.NAMED},
        {"state": LifecycleState.ROLLBACK},
        {"flags": FlagPair.RETIRED},
    ],
)
async def test_a_flag_that_falls_in_another_state_moves_nothing(fields: dict[str, object]) -> None:
    """`dev`, `test` before the flags are created, `rollback`, and a pair that has served."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, **fields)
    rollouts.backend.set(FLAG, on=True)
    replica = await rollouts.replica()
    rollouts.backend.set(FLAG, on=False)
    await replica.look()
    assert (rollouts.transitions(), replica.tombstones.all()) == ([], frozenset())


async def test_turning_the_flag_on_again_after_it_fired_brings_nothing_back() -> None:
    """`rollback` is terminal (TN-61)."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    for on in (False, True, False):
        rollouts.backend.set(FLAG, on=on)
        await replica.look()
    assert (len(rollouts.transitions()), rollouts.facts(SHOP).state) == (1, LifecycleState.ROLLBACK)


async def test_an_edge_with_the_store_away_holds_here_and_is_recorded_later() -> None:
    """The flag's fall is seen while nothing can be written."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    replica.away(store=True)
    rollouts.backend.set(FLAG, on=False)
    await replica.look()
    assert replica.views.current().killed == {SHOP.digest}
    replica.away()
    await replica.look()
    assert [event.actor for event in rollouts.transitions()] == ["kill-switch"]


async def test_a_kill_by_an_operator_is_not_also_one_by_its_flag() -> None:
    """The kill switches the flag off; no replica makes a second kill of that."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replicas = [await rollouts.replica(name) for name in "ab"]
    await replicas[0].stops.kill(a_kill(SHOP), "alice")
    for replica in replicas * 2:
        await replica.look()
    assert [event.actor for event in rollouts.transitions()] == ["alice"]


SEEN = st.lists(st.sampled_from(["on", "off", "unreachable", "restart"]), max_size=12)


@given(history=SEEN, confirmed=st.booleans())
@settings(max_examples=150, deadline=None)
def test_it_is_killed_exactly_if_a_confirmed_on_is_followed_by_a_confirmed_off(
    history: list[str], confirmed: bool
) -> None:
    """Any history of a flag, seen by processes that forget; `confirmed`: the record says that it was on."""
    assert asyncio.run(_killed_after(history, confirmed=confirmed)) == _should_be_killed(history, was_on=confirmed)


def _should_be_killed(history: list[str], *, was_on: bool) -> bool:
    known = was_on
    for seen in history:
        if seen == "restart":
            known = was_on
        elif seen == "on":
            known = True
        elif seen == "off" and known:
            return True
    return False


async def _killed_after(history: list[str], *, confirmed: bool) -> bool:
    rollouts = Rollouts()
    pair = FlagPair.ON if confirmed else FlagPair.CREATED
    rollouts.serve(SHOP, flags=pair, confirmed_on=FLAG if confirmed else "")
    rollouts.backend.misbehave(FlagFault.RAISE)
    replica = await rollouts.replica()
    for seen in history:
        rollouts.clock.seconds += 20
        if seen == "restart":
            rollouts.backend.misbehave(FlagFault.RAISE)
            replica = await rollouts.replica()
            continue
        rollouts.backend.misbehave(FlagFault.RAISE if seen == "unreachable" else FlagFault.NONE)
        if seen != "unreachable":
            rollouts.backend.set(FLAG, on=seen == "on")
        await replica.look()
    return bool(rollouts.transitions())
