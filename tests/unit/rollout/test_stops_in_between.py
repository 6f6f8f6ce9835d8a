"""Kills in whose middle something happens: a revision, another recorder, a store that is only half there."""

import asyncio

import pytest
from msgspec.structs import replace

from sidecar.adapters.rollout_memory import MemoryRollouts, RolloutsInMemory
from sidecar.core.errors import RevisionConflict, StoreUnavailable, TransitionRefused
from sidecar.core.identifiers import DefinitionId, Digest
from sidecar.core.rollout.definition_changes import seen
from sidecar.core.rollout.facts import FlagPair
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.step import Actor
from sidecar.operations.rollout.requests import RampDown
from sidecar.operations.rollout.stops.kills import KillDefinition
from sidecar.operations.rollout.stops.record_stops import RecordStops
from sidecar.operations.rollout.store.ports import RolloutWrite, StoredAnswer
from tests.support.builders import a_card
from tests.support.stopping import SHOP, HandClock, ReplicaForTests, Rollouts, a_kill

OTHER = a_card("rewards")
REVISED = a_card("shop", description="Knows about shop, in other words.")


class HalfAway(MemoryRollouts):
    """Rollouts can be read, and answers cannot."""

    async def answer(self, request_id: str) -> StoredAnswer | None:
        """Be away."""
        raise StoreUnavailable("half of the store is away")


class Contended(MemoryRollouts):
    """Somebody else is first, once."""

    times = 1

    async def write(self, change: RolloutWrite) -> None:
        """Be in conflict, or write."""
        if self.times:
            self.times -= 1
            raise RevisionConflict("somebody else was first")
        await super().write(change)


class SlowToAnswer(MemoryRollouts):
    """Keeps a write, and says so when it is told to."""

    def __init__(self, clock: HandClock, contents: RolloutsInMemory) -> None:
        """Hold answers back."""
        super().__init__(clock, contents)
        self.kept, self.say = asyncio.Event(), asyncio.Event()

    async def write(self, change: RolloutWrite) -> None:
        """Write, and wait."""
        await super().write(change)
        self.kept.set()
        await self.say.wait()


def killing(replica: ReplicaForTests, store: MemoryRollouts) -> KillDefinition:
    """Return the operation of a replica over another store."""
    kill = replica.stops.kill
    return replace(kill, stops=replace(kill.stops, store=store), take=replace(kill.take, store=store))


def proposed() -> Rollouts:
    """Return a rollout that no kill can stop: its flags were never created."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, state=LifecycleState.TEST, ramp=0, activated_at=None, flags=FlagPair.NAMED)
    return rollouts


def revise(rollouts: Rollouts) -> None:
    """Let the configuration bring a minor revision, seen by another replica."""
    before = rollouts.contents.rollouts[SHOP.definition.slot]
    by = Actor(actor="configuration", reason="", request_id="seen-1", at=rollouts.clock.now())
    rollouts.write(seen(before, SHOP.definition.slot, REVISED, by, at_once=True).rollout)


async def test_a_kill_that_holds_nothing_is_not_answered_as_if_it_did() -> None:
    """Nobody could say whether it is on record; whoever asked has to ask again."""
    rollouts = proposed()
    replica = await rollouts.replica()

    with pytest.raises(StoreUnavailable, match="half"):
        await killing(replica, HalfAway(rollouts.clock, rollouts.contents))(a_kill(SHOP), "alice")

    assert (replica.tombstones.all(), tuple(replica.tombstones.pending())) == (frozenset(), ())


async def test_a_kill_names_no_revision_and_is_never_in_conflict() -> None:
    """Its refusal is kept at the second try, when nobody else was first."""
    rollouts = proposed()
    replica = await rollouts.replica()

    with pytest.raises(TransitionRefused, match="never created"):
        await killing(replica, Contended(rollouts.clock, rollouts.contents))(a_kill(SHOP), "alice")

    assert rollouts.happened() == ["refused"]


async def test_a_kill_is_counted_once_though_the_loop_puts_it_on_record_meanwhile() -> None:
    """The store has it, and is slow to say so; the loop finds it there."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    store = SlowToAnswer(rollouts.clock, rollouts.contents)
    kill = killing(replica, store)

    asked = asyncio.ensure_future(kill(a_kill(SHOP), "alice"))
    await store.kept.wait()
    await RecordStops(replica.stops.first, kill, replica.stops.ramp_down).look()
    store.say.set()
    answer = await asked

    assert "record" in answer.reached
    assert replica.recorder.of("kill_switch_fired") == [("shop",)]


@pytest.mark.parametrize("kind", ["kill", "ramp_down"])
async def test_what_was_stopped_here_is_stopped_in_whatever_content_it_comes_back(kind: str) -> None:
    """The store was away from here, and a minor revision was seen elsewhere: it is served no more than the first."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, shape=SHOP.shape)
    replica = await rollouts.replica()
    replica.away(store=True)
    if kind == "kill":
        await replica.stops.kill(a_kill(SHOP), "alice")
    else:
        name = DefinitionId("shop")
        asked = RampDown(definition_id=name, request_id="down-1", reason="unsafe", breach_id="floor-1")
        await replica.stops.ramp_down(asked, "breaker")
    revise(rollouts)
    replica.away(store=False)
    await replica.views.look()

    view = replica.views.current()
    facts = view.slots[SHOP.definition.slot].definitions[Digest(REVISED.digest)]
    assert (REVISED.digest in view.killed) is (kind == "kill")
    assert facts.ramp == (10_000 if kind == "kill" else 0)


async def test_a_kill_that_is_on_record_holds_until_binds_show_that() -> None:
    """It named a content that binds here do not show yet; another kill comes while they still show the one before."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, shape=SHOP.shape)
    rollouts.serve(OTHER)
    replica = await rollouts.replica()
    revise(rollouts)
    replica.away(store=True)  # from its binds only
    kill = killing(replica, MemoryRollouts(rollouts.clock, rollouts.contents))

    answer = await kill(a_kill(REVISED, digest=REVISED.digest), "alice")
    held = SHOP.digest in replica.views.current().killed
    await kill(a_kill(OTHER, request_id="another"), "alice")

    assert "record" in answer.reached
    assert (held, SHOP.digest in replica.views.current().killed) == (True, True)
    replica.away()
    await replica.look()
    await replica.look()
    assert replica.tombstones.pending() == ()


async def test_a_ramp_down_of_what_was_revised_before_it_came_on_record_is_not_lost() -> None:
    """It named the content of then; on record it is of the definition as it is now."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, shape=SHOP.shape)
    replica = await rollouts.replica()
    replica.away(store=True)
    asked = RampDown(
        definition_id=DefinitionId("shop"), request_id="d-1", reason="unsafe", breach_id="f-1", digest=SHOP.digest
    )
    await replica.stops.ramp_down(asked, "breaker")
    revise(rollouts)
    replica.away(store=False)
    await replica.look()

    facts = rollouts.contents.rollouts[SHOP.definition.slot].definitions[Digest(REVISED.digest)]
    assert (facts.ramp, facts.breach is not None) == (0, True)
    assert replica.tombstones.ramped_down() == frozenset()


@pytest.mark.parametrize("kills", [True, False])
async def test_a_stop_of_a_revision_that_is_loaded_and_not_shown_stops_what_it_revises(kills: bool) -> None:
    """The store is away, so that binds still show the content before: served on, the stop would not have stopped it."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, shape=SHOP.shape)
    replica = await rollouts.replica()
    rollouts.loaded[REVISED.digest] = REVISED
    replica.away(store=True)
    if kills:
        answer = await replica.stops.kill(a_kill(SHOP, digest=REVISED.digest), "alice")
    else:
        asked = RampDown(
            definition_id=SHOP.definition.id, request_id="r-1", reason="", digest=REVISED.digest, breach_id="b-1"
        )
        answer = await replica.stops.ramp_down(asked, "breaker")
    view = replica.views.current()
    assert (answer.digest, answer.reached[0], "record" in answer.reached) == (SHOP.digest, "replica", False)
    assert SHOP.digest in view.killed or view.slots[SHOP.definition.slot].definitions[SHOP.digest].ramp == 0


async def test_a_stop_of_another_content_with_the_id_stops_nothing_else() -> None:
    """A major change of the same id is loaded, and not on record here: what serves is not what was meant."""
    rollouts = Rollouts()
    rollouts.serve(SHOP, shape=SHOP.shape)
    replica = await rollouts.replica()
    other = a_card("shop", model="another-model")
    rollouts.loaded[other.digest] = other
    replica.away(store=True)
    await replica.stops.kill(a_kill(SHOP, digest=other.digest), "alice")
    assert replica.views.current().killed == {other.digest}
