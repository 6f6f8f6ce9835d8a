"""A ramp-down that was answered while the store was away is put on record, whatever happened meanwhile."""

from typing import Any

import msgspec
import pytest

from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.core.identifiers import DefinitionId, Digest
from sidecar.operations.rollout.requests import RampDown
from sidecar.operations.rollout.stops.local_stop import MOST_PENDING
from sidecar.operations.rollout.store.ports import StoredAnswer
from tests.support.stopping import SHOP, ReplicaForTests, Rollouts, a_kill, facts_of_card

SLOT = SHOP.definition.slot
OTHER = Digest("sha256:other")


def down(request_id: str, **fields: Any) -> RampDown:
    """Return a ramp-down of the shop, for a breach of its own."""
    given = {"definition_id": SHOP.definition.id, "reason": "errors", "breach_id": f"breach-{request_id}"}
    return RampDown(request_id=request_id, **(given | fields))


def ramp_here(replica: ReplicaForTests) -> int:
    """Return the ramp that binds see."""
    return replica.views.current().slots[SLOT].definitions[SHOP.digest].ramp


def somebody_writes(rollouts: Rollouts, **fields: Any) -> None:
    """Let another replica change the rollout."""
    present = rollouts.contents.rollouts[SLOT]
    rollouts.write(msgspec.structs.replace(present, revision=present.revision + 1, **fields))


def with_another_one(rollouts: Rollouts) -> dict[str, Any]:
    """Return the fields of a rollout in which another definition of the same id serves."""
    other = msgspec.structs.replace(facts_of_card(SHOP, rollouts.clock.now()), digest=OTHER)
    return {"definitions": {**rollouts.contents.rollouts[SLOT].definitions, OTHER: other}, "active": OTHER}


async def held(*asked: RampDown) -> tuple[Rollouts, ReplicaForTests]:
    """Return a replica that has answered these with the store away; it is back."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    replica.away(store=True)
    for each in asked:
        assert (await replica.stops.ramp_down(each, "breaker")).reached == ("replica",)
    replica.away()
    return rollouts, replica


async def test_another_revision_does_not_take_back_what_was_answered() -> None:
    """The first was asked at a revision, the second at none; somebody else writes as soon as the store is back."""
    rollouts, replica = await held(down("1", expected_revision=1), down("2"))
    somebody_writes(rollouts)
    await replica.look()
    facts = rollouts.facts(SHOP)
    assert (ramp_here(replica), facts.ramp, rollouts.happened()) == (0, 0, ["ramped_down", "ramped_down"])
    assert (facts.breach is not None, replica.tombstones.pending()) == (True, ())


async def test_a_refused_ramp_down_takes_back_no_other() -> None:
    """It names a revision that was never there; one before it is held still, and so is that one if asked again."""
    rollouts, replica = await held(down("1", expected_revision=1))
    somebody_writes(rollouts)
    with pytest.raises(RevisionConflict):
        await replica.stops.ramp_down(down("2", expected_revision=7), "breaker")
    assert ramp_here(replica) == 0
    again = await replica.stops.ramp_down(down("1", expected_revision=1), "breaker")
    assert (again.changed, ramp_here(replica), rollouts.facts(SHOP).ramp) == (True, 0, 0)


async def test_a_request_id_that_was_used_does_not_take_it_back() -> None:
    """With the store there it would have been refused; with the store away it was answered."""
    rollouts, replica = await held(down("1"))
    rollouts.contents.answers["1"] = StoredAnswer(
        "1", "of another request", "done", "{}", rollouts.clock.now(), "alice"
    )
    await replica.look()
    assert (ramp_here(replica), rollouts.facts(SHOP).ramp) == (0, 0)
    assert rollouts.contents.answers["1"].fingerprint == "of another request"


@pytest.mark.parametrize("digest", ["", SHOP.digest])
async def test_it_is_about_the_definition_that_served_then(digest: str) -> None:
    """Meanwhile another one of the same id serves: that is left alone."""
    rollouts, replica = await held(down("1", digest=digest))
    somebody_writes(rollouts, **with_another_one(rollouts))
    await replica.look()
    ramps = {each: facts.ramp for each, facts in rollouts.contents.rollouts[SLOT].definitions.items()}
    assert ramps == {SHOP.digest: 0, OTHER: 10_000}


async def test_a_revision_of_the_definition_is_ramped_down_instead() -> None:
    """Meanwhile the configuration has revised it; the request named the digest."""
    rollouts, replica = await held(down("1", digest=SHOP.digest))
    revised = msgspec.structs.replace(rollouts.facts(SHOP), digest=OTHER)
    somebody_writes(rollouts, definitions={OTHER: revised}, active=OTHER)
    await replica.look()
    assert rollouts.contents.rollouts[SLOT].definitions[OTHER].ramp == 0


async def test_so_many_that_wait_are_enough() -> None:
    """One more that changes nothing here is refused, as is a kill in the dark; a kill that takes away is not."""
    _, replica = await held(*(down(f"{number}") for number in range(MOST_PENDING)))
    replica.away(store=True)
    with pytest.raises(StoreUnavailable):
        await replica.stops.ramp_down(down("more"), "breaker")
    dark = msgspec.structs.replace(a_kill(SHOP, digest=OTHER), definition_id=DefinitionId("nobody"))
    with pytest.raises(StoreUnavailable):
        await replica.stops.kill(dark, "breaker")
    assert len(replica.tombstones.pending()) == MOST_PENDING
    assert (await replica.stops.kill(a_kill(SHOP), "alice")).reached == ("replica", "flag")


async def test_the_same_kill_again_that_means_another_definition_by_now_is_on_record() -> None:
    """It holds here at once, so that the record must not say that the other one serves."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    await replica.stops.kill(a_kill(SHOP), "alice")
    somebody_writes(rollouts, **with_another_one(rollouts))
    await replica.look()
    answer = await replica.stops.kill(a_kill(SHOP), "alice")
    assert (answer.digest, answer.changed, answer.repeated) == (OTHER, True, False)
    assert (OTHER in replica.views.current().killed, rollouts.contents.rollouts[SLOT].active) == (True, None)
