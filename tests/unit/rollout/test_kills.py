"""Kills and ramp-downs: at once here, whoever is away; on record once, as soon as that is possible."""

from pathlib import Path

import msgspec
import pytest

from sidecar.adapters.tombstones import TombstonesInMemory, opened_tombstones
from sidecar.core.errors import StoreUnavailable, TransitionRefused, UnknownDefinition
from sidecar.core.rollout.facts import FlagPair
from sidecar.core.rollout.states import LifecycleState, Trigger
from sidecar.operations.rollout.requests import RampDown
from sidecar.operations.rollout.store.ports import LocalStop
from tests.support.stopping import SHOP, ReplicaForTests, Rollouts, SwitchedFlags, a_kill

FLAG = "ai_assistant_subagent_shop"


class OnAFullDisk(TombstonesInMemory):
    """Holds in memory, and cannot be written."""

    async def add(self, stop: LocalStop) -> None:
        """Hold it, and fail."""
        await super().add(stop)
        raise OSError(28, "No space left on device")


def killed_here(replica: ReplicaForTests) -> bool:
    """Say whether binds of a replica leave the shop out."""
    view = replica.views.current()
    return SHOP.digest in view.killed or view.slots[SHOP.definition.slot].active is None


async def test_a_kill_reaches_the_replica_the_flag_and_the_record() -> None:
    """Everything is well: the answer names all three, and the audit has who, why and by what."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()

    answer = await replica.stops.kill(a_kill(SHOP), "alice")

    assert (answer.reached, answer.state, answer.active) == (("replica", "flag", "record"), "rollback", False)
    assert killed_here(replica)
    assert FLAG not in (await rollouts.backend.fetch()).on
    (event,) = rollouts.transitions()
    assert (event.trigger, event.actor, event.reason) == (Trigger.KILL_SWITCH, "alice", "it says nonsense")
    assert rollouts.happened() == ["killed"]
    assert replica.recorder.of("kill_switch_fired") == [("shop",)]


@pytest.mark.parametrize(("store", "backend"), [(True, False), (False, True), (True, True)])
async def test_a_kill_holds_at_once_whoever_is_away_and_is_on_record_once_they_are_back(
    store: bool, backend: bool
) -> None:
    """Store, backend, or both are away; afterwards there is one event, of the time at which it was asked."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    replica.away(store=store, backend=backend)

    answer = await replica.stops.kill(a_kill(SHOP), "alice")
    asked_at = rollouts.clock.now()

    assert killed_here(replica)
    reached = ["replica", *([] if backend else ["flag"]), *([] if store else ["record"])]
    assert list(answer.reached) == reached
    assert bool(answer.warnings) is store
    rollouts.clock.seconds += 60
    replica.away()
    for _ in range(3):
        await replica.look()
    (event,) = rollouts.transitions()
    assert event.at <= asked_at
    assert rollouts.facts(SHOP).state is LifecycleState.ROLLBACK
    assert (replica.tombstones.pending(), replica.recorder.of("kill_switch_fired")) == ((), [("shop",)])


async def test_a_kill_that_was_only_in_the_file_is_recorded_by_the_next_process(tmp_path: Path) -> None:
    """Killed with the store away, stopped, started again with the store still away, and then back."""
    rollouts, path = Rollouts(), tmp_path / "tombstones"
    rollouts.serve(SHOP)
    async with opened_tombstones(path, _no_problem) as tombstones:
        before = await rollouts.replica("a", tombstones)
        before.away(store=True, backend=True)
        await before.stops.kill(a_kill(SHOP), "alice")
    before.away()
    async with opened_tombstones(path, _no_problem) as tombstones:
        after = await rollouts.replica("b", tombstones)
        assert killed_here(after)
        await after.look()
        assert [event.actor for event in rollouts.transitions()] == ["alice"]
        assert tombstones.pending() == ()


async def test_a_kill_that_cannot_be_kept_holds_and_says_that_it_does_not_survive() -> None:
    """The disk is full."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica(tombstones=OnAFullDisk())
    replica.away(store=True)
    answer = await replica.stops.kill(a_kill(SHOP), "alice")
    assert killed_here(replica)
    assert any("NOT survive" in warning for warning in answer.warnings)
    assert [kind for kind, _ in replica.recorder.of("anomaly")].count("tombstone_not_kept") == 1


async def test_the_same_kill_again_is_answered_as_before_and_another_one_changes_nothing() -> None:
    """One event, one count."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    await replica.stops.kill(a_kill(SHOP), "alice")
    again = await replica.stops.kill(a_kill(SHOP), "alice")
    other = await replica.stops.kill(a_kill(SHOP, "kill-2"), "bob")
    assert (again.repeated, again.changed, other.repeated, other.changed) == (True, True, False, False)
    assert (len(rollouts.transitions()), len(replica.recorder.of("kill_switch_fired"))) == (1, 1)


async def test_two_replicas_that_kill_at_once_make_one_event() -> None:
    """Both held it while the store was away."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replicas = [await rollouts.replica(name) for name in "ab"]
    for number, replica in enumerate(replicas):
        replica.away(store=True)
        await replica.stops.kill(a_kill(SHOP, f"kill-{number}"), f"person-{number}")
    for replica in replicas:
        replica.away()
    for replica in replicas * 2:
        await replica.look()
    assert (len(rollouts.transitions()), rollouts.happened()) == (1, ["killed"])
    assert sum(len(replica.recorder.of("kill_switch_fired")) for replica in replicas) == 1


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"state": LifecycleState.DEV, "flags": FlagPair.NAMED}, "is in dev"),
        ({"state": LifecycleState.TEST, "flags": FlagPair.NAMED}, "never created"),
        ({"state": LifecycleState.ROLLBACK, "decommission_began_at": Rollouts().clock.now()}, "decommissioned"),
    ],
)
async def test_what_nobody_is_served_by_is_not_killed(fields: dict[str, object], why: str) -> None:
    """Refused with the reason, kept under its request id, and nothing holds here."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, **fields)
    replica = await rollouts.replica()
    with pytest.raises(TransitionRefused, match=why):
        await replica.stops.kill(a_kill(SHOP), "alice")
    assert (replica.tombstones.all(), rollouts.happened()) == (frozenset(), ["refused"])


async def test_an_unknown_definition_is_not_killed_but_a_digest_is_held_in_the_dark() -> None:
    """With the store away from the start, only a digest says what is meant."""
    rollouts = Rollouts()
    replica = await rollouts.replica()
    with pytest.raises(UnknownDefinition):
        await replica.stops.kill(a_kill(SHOP), "alice")
    replica.away(store=True)
    with pytest.raises(StoreUnavailable):
        await replica.stops.kill(a_kill(SHOP), "alice")
    answer = await replica.stops.kill(a_kill(SHOP, "kill-2", digest=SHOP.digest), "alice")
    assert answer.reached == ("replica",)
    assert replica.tombstones.all() == {SHOP.digest}


async def test_a_request_id_that_was_used_before_does_not_hold_a_kill_up() -> None:
    """It was refused in `dev`; when the same is asked in `promote`, it is done."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, state=LifecycleState.DEV, flags=FlagPair.NAMED)
    replica = await rollouts.replica()
    with pytest.raises(TransitionRefused):
        await replica.stops.kill(a_kill(SHOP), "alice")
    slot = SHOP.definition.slot
    later = Rollouts()
    later.serve(SHOP)
    rollouts.write(msgspec.structs.replace(later.contents.rollouts[slot], revision=2))
    await replica.look()
    assert (await replica.stops.kill(a_kill(SHOP), "alice")).changed
    assert (rollouts.facts(SHOP).state, replica.tombstones.pending()) == (LifecycleState.ROLLBACK, ())


async def test_a_read_only_backend_is_told_as_an_edit() -> None:
    """The kill holds and is on record; a person switches the flag."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica(writer=SwitchedFlags(rollouts.backend, edit="flags.yaml: set it to false"))
    answer = await replica.stops.kill(a_kill(SHOP), "alice")
    assert (answer.edits, answer.reached) == (("flags.yaml: set it to false",), ("replica", "record"))


async def test_a_ramp_down_holds_at_zero_with_the_store_away_until_it_is_on_record() -> None:
    """Nobody is served by it at once, its state stays, and when the store is back the record says the same."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    replica.away(store=True)
    asked = RampDown(definition_id=SHOP.definition.id, request_id="down-1", reason="errors", breach_id="breach-1")

    answer = await replica.stops.ramp_down(asked, "breaker")

    assert (answer.reached, answer.ramp, _ramp_here(replica)) == (("replica",), 0, 0)
    assert not killed_here(replica)
    replica.away()
    await replica.look()
    facts = rollouts.facts(SHOP)
    assert (facts.ramp, facts.state, facts.breach is not None) == (0, LifecycleState.PROMOTE, True)
    assert (replica.tombstones.ramped_down(), _ramp_here(replica)) == (frozenset(), 0)
    assert rollouts.happened() == ["ramped_down"]


def _ramp_here(replica: ReplicaForTests) -> int:
    return replica.views.current().slots[SHOP.definition.slot].definitions[SHOP.digest].ramp


def _no_problem(kind: str, text: str) -> None:
    raise AssertionError(f"{kind}: {text}")
