"""What is on the dispatch surface follows the rules of promotion; the kill switch has the name that was agreed."""

from sidecar.core.rollout.events import TransitionEvent
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.operator_desk import INSIDE
from tests.support.operators import an_operated_sidecar, gated
from tests.support.requirement import requirement
from tests.support.stopping import REWARDS, SHOP, Rollouts

OUTSIDE = "user-1"
"""In bucket 6576 of the salt `shop`."""


@requirement("PC2-D-65")
async def test_only_what_is_promoted_active_and_reaches_the_user_is_on_the_surface() -> None:
    """In `dev`, in `test`, in `promote` at 0 %, at 5 % for one inside and one outside, and rolled back."""
    offered = []
    async with an_operated_sidecar() as bench:

        async def seen() -> None:
            offered.append((await bench.offers(INSIDE), await bench.offers(OUTSIDE)))

        await seen()
        await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_TEST)
        await seen()
        await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_PROMOTE)
        await seen()
        await bench.step("SetRamp", ramp_basis_points=500)
        await seen()
        await bench.step("RollBack")
        await seen()
    nobody: tuple[list[str], list[str]] = ([], [])
    assert offered == [nobody, nobody, nobody, (["ask_shop"], []), nobody]


@requirement("PF1-T-3")
async def test_the_cohort_of_a_turn_names_the_sub_agents_that_it_may_call() -> None:
    """One user is inside the ramp, another is not: two cohorts, which differ in nothing else."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        inside, outside = [(await bench.sidecar.bind(principal=who)).surface.cohort for who in (INSIDE, OUTSIDE)]
    assert (list(inside.active_sub_agents), list(outside.active_sub_agents)) == (["shop"], [])
    inside.ClearField("active_sub_agents")
    assert inside == outside


@requirement("PC2-D-65")
async def test_what_is_promoted_and_not_active_is_not_on_the_surface() -> None:
    """Two definitions in `promote` fill the slot; the newer one serves everybody it reaches, by its own name."""
    async with an_operated_sidecar(gated("shop"), gated("shop2", slot="shop")) as bench:
        await bench.promoted(500)
        await bench.promoted(500, "shop2")
        bound = await bench.sidecar.bind(principal=INSIDE)
        candidates = [(each.definition_id, each.verdict) for each in bound.surface.candidates]
        status = await bench.status()
    assert [tool.name for tool in bound.surface.sub_agent_tools] == ["ask_shop"]
    assert [definition_id for definition_id, _ in candidates] == ["shop2"]
    assert [each.state for each in status.definitions] == [pb.LIFECYCLE_STATE_PROMOTE] * 2


@requirement("PF1-T-16")
async def test_the_flags_have_the_agreed_names_and_the_kill_switch_falling_is_a_rollback() -> None:
    """Created off at `test` to `promote`, on with the first step; off again it is a kill, whoever switched it."""
    async with an_operated_sidecar(gated("earnings_coach", slot="shop")) as bench:
        await bench.promoted(0, "earnings_coach")
        created = dict(bench.flags.on)
        await bench.step("SetRamp", "earnings_coach", ramp_basis_points=500)
    kill, cohort = "ai_assistant_subagent_earnings_coach", "ai_assistant_subagent_earnings_coach_cohort"
    assert (created, bench.flags.on) == ({kill: False, cohort: False}, {kill: True, cohort: True})

    rollouts = Rollouts()
    rollouts.serve(SHOP, REWARDS)
    replica = await rollouts.replica()
    rollouts.backend.set("ai_assistant_subagent_shop", on=False)
    await replica.look()
    (moved,) = rollouts.transitions()
    assert isinstance(moved, TransitionEvent)
    assert (moved.subagent_id, moved.target_state, moved.trigger) == ("shop", "rollback", "kill_switch")
