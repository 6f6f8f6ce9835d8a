"""A kill that is kept here outlives the record: lost, or restored as it was before, the record gets it again."""

from pathlib import Path

import msgspec

from sidecar.adapters.tombstones import TombstonesInMemory, opened_tombstones
from sidecar.core.rollout.facts import FlagPair
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.store.ports import Tombstones
from tests.support.builders import a_card
from tests.support.stopping import REWARDS, SHOP, ReplicaForTests, Rollouts, a_kill, facts_of_card


async def killed_before(rollouts: Rollouts, *kept: Tombstones) -> None:
    """Kill the shop at as many replicas, on a record that is gone afterwards."""
    lost = Rollouts(clock=rollouts.clock)
    lost.serve(SHOP)
    replicas = [await lost.replica(f"before-{number}", tombstones) for number, tombstones in enumerate(kept)]
    for replica in replicas:
        await replica.stops.kill(a_kill(SHOP), "alice")
        assert replica.tombstones.pending() == ()
    rollouts.clock.seconds += 3600


def problems(replica: ReplicaForTests) -> list[str]:
    """Return what was reported of lost kills."""
    return [kind for kind, _ in replica.recorder.of("anomaly") if kind == "kill_lost_from_record"]


async def test_a_kill_that_the_record_has_lost_is_put_there_again_once_with_its_own_time() -> None:
    """Two replicas keep it, a third one does not: one transition, and none of them serves it."""
    rollouts, first, second = Rollouts(), TombstonesInMemory(), TombstonesInMemory()
    asked_at = rollouts.clock.now()
    await killed_before(rollouts, first, second)
    rollouts.serve(SHOP, REWARDS)

    replicas = [await rollouts.replica(name, kept) for name, kept in (("a", first), ("b", second), ("c", None))]
    for replica in replicas * 2:
        await replica.look()

    [event] = rollouts.transitions()
    assert (event.digest, event.actor, event.target_state) == (SHOP.digest, "alice", LifecycleState.ROLLBACK)
    assert (event.at - asked_at).total_seconds() < 1
    assert rollouts.happened() == ["killed"]
    assert [replica.views.current().slots[SHOP.definition.slot].active for replica in replicas] == [None] * 3
    assert rollouts.facts(REWARDS).state is LifecycleState.PROMOTE
    assert [replica.tombstones.pending() for replica in replicas] == [()] * 3


async def test_a_record_that_was_restored_to_before_a_revision_gets_the_kill_for_the_content_before() -> None:
    """What it knows as serving was revised, and killed as the revision: it is the same definition."""
    rollouts, kept = Rollouts(), TombstonesInMemory()
    await killed_before(rollouts, kept)
    before = a_card("shop", description="Knows about shop, in the words of before.")
    rollouts.loaded[SHOP.digest] = SHOP
    rollouts.serve(before, shape=before.shape)

    replica = await rollouts.replica("a", kept)
    await replica.look()

    [event] = rollouts.transitions()
    assert (event.digest, event.actor) == (before.digest, "alice")
    assert replica.views.current().slots[SHOP.definition.slot].active is None


async def test_it_is_put_there_as_soon_as_the_definition_comes_back_and_may_be_killed() -> None:
    """First the record is empty, then it is in `dev`, where nobody is served; then its flags are created."""
    rollouts, kept = Rollouts(), TombstonesInMemory()
    await killed_before(rollouts, kept)
    replica = await rollouts.replica("a", kept)
    assert rollouts.transitions() == []

    rollouts.serve(SHOP, state=LifecycleState.DEV, flags=FlagPair.NAMED)
    await replica.look()
    assert (rollouts.transitions(), kept.pending()) == ([], ())

    before = rollouts.contents.rollouts[SHOP.definition.slot]
    facts = facts_of_card(SHOP, rollouts.clock.now(), state=LifecycleState.TEST, flags=FlagPair.CREATED)
    rollouts.write(msgspec.structs.replace(before, revision=2, definitions={SHOP.digest: facts}))
    await replica.look()
    assert [event.source_state for event in rollouts.transitions()] == [LifecycleState.TEST]


async def test_a_kill_that_the_file_says_is_on_record_is_put_there_again_after_a_start(tmp_path: Path) -> None:
    """The process that killed it is gone, and so is the database."""
    rollouts, path = Rollouts(), tmp_path / "kills.jsonl"
    async with opened_tombstones(path, lambda kind, text: None) as kept:
        await killed_before(rollouts, kept)
    rollouts.serve(SHOP)
    async with opened_tombstones(path, lambda kind, text: None) as kept:
        assert kept.pending() == ()
        replica = await rollouts.replica("a", kept)
        assert kept.pending() == ()
    assert len(rollouts.transitions()) == 1
    assert problems(replica) == ["kill_lost_from_record"]


async def test_a_record_that_has_every_kill_costs_nothing() -> None:
    """A kill that was recorded as ever is not pending again, however often is looked."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    await replica.stops.kill(a_kill(SHOP), "alice")
    rows = len(rollouts.contents.audit)
    for _ in range(5):
        await replica.look()

    assert (len(rollouts.contents.audit), replica.tombstones.pending(), problems(replica)) == (rows, (), [])
