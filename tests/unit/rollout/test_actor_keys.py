"""What vouched for the actor, and the trace, stay with a step, whatever happens before it is on record."""

from datetime import UTC, datetime

import msgspec
import pytest

from sidecar.core.errors import GateFailed, RequestIdReused
from sidecar.core.identifiers import DefinitionId
from sidecar.core.rollout.step import Actor
from sidecar.operations.rollout.requests import RampDown
from sidecar.operations.rollout.stored_answers import previous_answer, stored_answer
from tests.support.stopping import SHOP, Rollouts, a_kill

KEY = "ab" * 8
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
AT = datetime(2026, 3, 1, tzinfo=UTC)


async def test_a_kill_that_is_put_on_record_after_a_restart_names_the_key_and_the_trace() -> None:
    """It is kept with the stop while the store is away."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    before = await rollouts.replica()
    before.away(store=True)
    await before.stops.kill(a_kill(SHOP, actor_key=KEY, traceparent=TRACE), "alice")
    after = await rollouts.replica("b", before.tombstones)
    after.away()
    await after.look()

    found = [(event.actor, event.actor_key, event.traceparent) for event in rollouts.transitions()]
    assert found == [("alice", KEY, TRACE)]


def test_neither_key_nor_trace_is_part_of_what_a_request_holds() -> None:
    """Whose request it is, is kept beside the fingerprint of its contents; a repeated one may have another trace."""
    asked = RampDown(definition_id=DefinitionId("shop"), request_id="r-1", reason="a breach", breach_id="floor-7")
    again = msgspec.structs.replace(asked, actor_key=KEY, traceparent=TRACE)

    assert asked.fingerprint == again.fingerprint


@pytest.mark.parametrize(("actor", "key"), [("bob", KEY), ("alice", "cd" * 8), ("alice", "")])
def test_an_answer_is_repeated_to_the_same_subject_under_the_same_key_only(actor: str, key: str) -> None:
    """Two keys may each vouch for an alice, and need not mean the same person."""
    asked = RampDown(
        definition_id=DefinitionId("shop"), request_id="r-1", reason="a breach", breach_id="floor-7", actor_key=KEY
    )
    by = Actor(actor="alice", reason="", request_id="r-1", at=AT, actor_key=KEY)
    kept = stored_answer(asked, "GATE_FAILED", "no", by)

    with pytest.raises(GateFailed, match="no"):
        previous_answer(kept, asked, "alice")
    with pytest.raises(RequestIdReused, match="another operator"):
        previous_answer(kept, msgspec.structs.replace(asked, actor_key=key), actor)


async def test_two_ramp_downs_that_were_answered_under_one_id_are_both_put_on_record() -> None:
    """Of three operators who all made up `down-1` while the store was away, none loses what was answered."""
    rollouts = Rollouts()
    rollouts.serve(SHOP)
    replica = await rollouts.replica()
    replica.away(store=True)
    for actor in ("alice", "bob", "carol"):
        asked = RampDown(definition_id=SHOP.definition.id, request_id="down-1", reason="a breach", breach_id=actor)
        await replica.stops.ramp_down(asked, actor)
    replica.away()
    for _ in range(3):
        await replica.look()

    assert replica.tombstones.pending() == ()
    askers = sorted(answer.asker.split("\x1f")[0] for answer in rollouts.contents.answers.values())
    assert askers == ["alice", "bob", "carol"]
