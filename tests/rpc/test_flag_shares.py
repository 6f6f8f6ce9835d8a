"""A flag that a flag service has on for a percentage of users: the sidecar buckets them, inside the ramp."""

from itertools import count
from typing import Final

from sidecar.core.rollout.bucketing import in_ramp
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requirement import requirement

KILL, COHORT = "ai_assistant_subagent_shop", "ai_assistant_subagent_shop_cohort"
USERS: Final = tuple(f"user-{number}" for number in range(100))
TURNS: Final = count()


async def served(bench: OperatedSidecar) -> set[str]:
    """Return who of the users has the shop."""
    return {user for user in USERS if await bench.offers(user, turn_id=f"turn-{next(TURNS)}")}


def inside(basis_points: int) -> set[str]:
    """Return the users of a ramp."""
    return {user for user in USERS if in_ramp("shop", user, basis_points)}


@requirement("PF1-D-66", "PF1-FR-2c")
async def test_a_percentage_narrows_the_ramp_by_the_ramps_own_buckets() -> None:
    """Of a ramp of 50 %: 20 % of the flag serves the users of a ramp of 20 %, and 70 % those of 50 %."""
    async with an_operated_sidecar(gated("shop")) as bench:
        await bench.promoted(ramp=5000)
        seen = []
        for share in (2000, 7000):
            bench.flags.shares[COHORT] = share
            seen.append(await served(bench))
        bench.flags.shares = {KILL: 1000, COHORT: 7000}
        seen.append(await served(bench))

    assert seen == [inside(2000), inside(5000), inside(1000)]


async def test_explain_says_that_a_user_is_outside_the_percentage() -> None:
    """Not that the flag is off, and not that the ramp is at fault."""
    outside = min(inside(5000) - inside(2000))
    async with an_operated_sidecar(gated("shop")) as bench:
        await bench.promoted(ramp=5000)
        bench.flags.shares[COHORT] = 2000
        request = pb.ExplainServingRequest(slot="shop", principal=outside)
        explained = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())

    assert "is outside the 20 % of users for whom its flags are on" in str(explained)


@requirement("PF1-D-35")
async def test_flags_are_not_retired_while_one_is_on_for_some_users_only() -> None:
    """That would give the definition to everybody else, and no gate of this step is about that."""
    async with an_operated_sidecar(gated("shop")) as bench:
        await bench.promoted(ramp=5000)
        await bench.step("SetRamp", ramp_basis_points=10_000)
        bench.flags.shares[COHORT] = 2000
        refused = await bench.refused("RetireFlags")
        bench.flags.shares.clear()
        await bench.step("RetireFlags")

    assert f"the flag {COHORT} is on for 20 % of users" in refused.message
