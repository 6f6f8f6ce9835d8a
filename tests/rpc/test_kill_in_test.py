"""A definition in `test` can be killed exactly if its kill flag exists, whoever created that. Source: TN-55."""

import pytest

from sidecar.core.identifiers import Slot
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.enum_words import word
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.requirement import requirement

FLAG = "ai_assistant_subagent_shop"
UNREAD = {"expected_revision": None}


async def in_test(bench: OperatedSidecar) -> None:
    """Propose the definition."""
    await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_TEST)


@requirement("PF1-FR-9d")
@pytest.mark.parametrize("on", [False, True])
async def test_a_definition_in_test_whose_flag_exists_is_killed(on: bool) -> None:
    """Its entry names a flag that somebody created, as in AC-1; off or on, the kill is a transition like any other."""
    async with an_operated_sidecar() as bench:
        await in_test(bench)
        bench.flags.on[FLAG] = on
        killed = await bench.step("Kill", header=UNREAD, role="breaker")
        again = await bench.step("Kill", header=UNREAD)
        (moved,) = [row.transition for row in await bench.audit() if row.HasField("transition")][1:]
        promoted = await bench.refused("Transition", target_state=pb.LIFECYCLE_STATE_PROMOTE)

    assert (killed.state, killed.changed, list(word(killed, "reached"))) == (
        pb.LIFECYCLE_STATE_ROLLBACK,
        True,
        ["replica", "record"],
    )
    assert not again.changed
    assert (moved.source_state, moved.target_state, moved.trigger) == (
        pb.LIFECYCLE_STATE_TEST,
        pb.LIFECYCLE_STATE_ROLLBACK,
        pb.TRIGGER_KILL_SWITCH,
    )
    assert bench.flags.on[FLAG] is on  # not the sidecar's, so it is left as it is
    assert promoted.reason == "TRANSITION_REFUSED"


@pytest.mark.parametrize("away", [False, True])
async def test_without_a_flag_that_can_be_seen_the_kill_is_refused_and_a_rollback_is_named(away: bool) -> None:
    """Nobody created it, or its backend is away: nothing holds here, and an operator can roll it back."""
    async with an_operated_sidecar() as bench:
        await in_test(bench)
        bench.flags.on.update({FLAG: True} if away else {})
        bench.flags.away = away
        refused = await bench.refused("Kill", header=UNREAD)
        dry = await bench.refused("Kill", header=UNREAD | {"dry_run": True})
        held = bench.rollout.tombstones.all()
        rolled_back = await bench.step("RollBack")

    assert {refused.reason, dry.reason} == {"TRANSITION_REFUSED"}
    assert f"its kill flag {FLAG} was never created, or cannot be seen" in refused.message
    assert "roll it back, which needs no flag" in refused.message
    assert (held, rolled_back.state) == (frozenset(), pb.LIFECYCLE_STATE_ROLLBACK)


async def test_a_kill_in_test_is_on_record_though_the_flag_cannot_be_seen_any_more_by_then() -> None:
    """Store away, killed, flag backend away, store back: what was answered as held is not refused afterwards."""
    async with an_operated_sidecar() as bench:
        await in_test(bench)
        bench.flags.on[FLAG] = False
        bench.store.away = True
        held = await bench.step("Kill", header=UNREAD)
        bench.flags.away = True
        bench.store.away = False
        await bench.rollout.stops.record.look()
        rollout = await bench.store.rollout(Slot("shop"))

    assert list(word(held, "reached")) == ["replica"]
    assert rollout is not None
    assert [(each.state, each.killed is not None) for each in rollout.definitions.values()] == [("rollback", True)]
