"""What vouched for the actor stays with a step, whatever happens before it is on record."""

from sidecar.core.identifiers import DefinitionId
from sidecar.operations.rollout.requests import RampDown
from tests.support.stopping import SHOP, Rollouts, a_kill

KEY = "ab" * 8


async def test_a_kill_that_is_put_on_record_after_a_restart_names_the_key() -> None:
    """It is kept with the stop while the store is away."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    before = await rollouts.replica()
    before.away(store=True)
    await before.stops.kill(a_kill(SHOP, actor_key=KEY), "alice")
    after = await rollouts.replica("b", before.tombstones)
    after.away()
    await after.look()

    assert [(event.actor, event.actor_key) for event in rollouts.transitions()] == [("alice", KEY)]


def test_the_same_request_by_another_key_is_a_repetition() -> None:
    """A key that was renewed in between makes it no other request."""
    asked = RampDown(definition_id=DefinitionId("shop"), request_id="r-1", reason="a breach", breach_id="floor-7")
    again = RampDown(
        definition_id=DefinitionId("shop"), request_id="r-1", reason="a breach", breach_id="floor-7", actor_key=KEY
    )

    assert asked.fingerprint == again.fingerprint
