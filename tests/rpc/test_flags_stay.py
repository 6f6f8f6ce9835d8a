"""What a flag gates stays gated until an operator retires the flags: no change of the configuration ends that."""

from datetime import timedelta
from itertools import count
from typing import Final

import pytest

from sidecar.core.definitions.cards.card import Card
from subagents.lifecycle.v1 import flags_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.enum_words import word
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requirement import requirement

KILL, COHORT = "ai_assistant_subagent_shop", "ai_assistant_subagent_shop_cohort"
USERS: Final = tuple(f"user-{number}" for number in range(200))
TURNS: Final = count()
FLAGGED: Final = gated("shop")
UNFLAGGED: Final = gated("shop", enabled_via_flag=None, description="Knows about shop, without a flag.")
REWORDED: Final = gated("shop", enabled_via_flag=None, description="Knows about shop, in other words.")


async def served(bench: OperatedSidecar) -> list[str]:
    """Return who of the users has the shop."""
    return [user for user in USERS if await bench.offers(user, turn_id=f"turn-{next(TURNS)}")]


async def later(bench: OperatedSidecar) -> None:
    """Let a minute pass in which every loop looks."""
    for _ in range(3):
        bench.clock.time += timedelta(seconds=20)
        await bench.rollout.views.look()
        await bench.rollout.stops.edges.look()


async def the_shop(bench: OperatedSidecar) -> pb.DefinitionStatus:
    """Return its one definition."""
    (one,) = (await bench.status()).definitions
    return one


@requirement("PF1-D-7", "PF1-FR-12e")
@pytest.mark.parametrize("revisions", [[UNFLAGGED], [UNFLAGGED, FLAGGED, UNFLAGGED]], ids=["one", "two replicas"])
async def test_a_pause_outlives_a_revision_that_names_no_flag(revisions: list[Card]) -> None:
    """Nobody is served until the flag is on again, and then exactly who was before; two replicas alternate."""
    async with an_operated_sidecar(FLAGGED) as bench:
        await bench.promoted(ramp=5000)
        before = await served(bench)
        await bench.step("SwitchCohortFlagOff")
        for revision in revisions:
            await later(bench)
            await bench.configured(revision)
        paused = await served(bench)
        request = pb.ExplainServingRequest(slot="shop", principal=before[0])
        explained = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())
        shown = await the_shop(bench)
        await later(bench)
        await bench.step("SwitchFlagOn", flag=flags_pb2.FLAG_KIND_COHORT)
        after = await served(bench)

    assert 80 < len(before) < 120
    assert (paused, after) == ([], before)
    assert [each.explanation for each in explained.verdicts] == [f"its flag {COHORT} is off: no user is exposed"]
    assert [flag.name for flag in shown.flags] == [KILL, COHORT]
    assert [
        said for said in shown.drifts if said.startswith(f"its entry no longer names {KILL}, which still gates it")
    ] != []


@requirement("PF1-FR-9c", "PF1-FR-9d")
async def test_the_kill_flag_kills_though_a_revision_names_it_no_longer() -> None:
    """The switch that an operator knows still works: the sub-agent is gone at the next bind, for good."""
    async with an_operated_sidecar(FLAGGED) as bench:
        await bench.promoted(ramp=5000)
        await later(bench)
        await bench.configured(UNFLAGGED)
        await later(bench)
        serving = await served(bench)
        bench.flags.on[KILL] = False
        await later(bench)
        killed = await the_shop(bench)

        assert len(serving) > 80
        assert await served(bench) == []
        assert (killed.state, killed.killed.killed_by) == (pb.LIFECYCLE_STATE_ROLLBACK, "kill-switch")


async def test_that_a_revision_names_no_flag_is_on_the_audit_once() -> None:
    """With the flag that stays; naming it again is no news, since it gated all the time."""
    async with an_operated_sidecar(FLAGGED) as bench:
        await bench.promoted(ramp=500)
        for revision in (UNFLAGGED, REWORDED, FLAGGED):
            await bench.configured(revision)
        told = [
            (word(row.rollout, "kind"), row.rollout.detail)
            for row in await bench.audit()
            if row.actor == "configuration"
        ]
        again = await the_shop(bench)

    assert [each for each in told if each[0].startswith("flags")] == [("flags_kept", KILL)]
    assert (again.flag_pair, list(again.drifts)) == (pb.FLAG_PAIR_SWITCHED_ON, [])


@requirement("PF1-D-35")
async def test_retiring_lets_go_a_flag_that_the_entry_names_no_longer_and_naming_it_anew_gates_again() -> None:
    """Nothing is left to be done to the entry; who names the flag later counts on it as a switch (TN-59)."""
    async with an_operated_sidecar(FLAGGED) as bench:
        await bench.promoted(ramp=5000)
        await bench.step("SetRamp", ramp_basis_points=10_000)
        await bench.configured(UNFLAGGED)
        retired = await bench.step("RetireFlags")
        shown = await the_shop(bench)
        bench.flags.on |= {KILL: False, COHORT: False}
        await later(bench)
        ungated = await served(bench)
        await bench.configured(FLAGGED)
        await later(bench)
        gated_again = await served(bench)

    assert (shown.flag_pair, list(shown.drifts), list(retired.warnings)) == (pb.FLAG_PAIR_RETIRED, [], [])
    assert (len(ungated), gated_again) == (200, [])
