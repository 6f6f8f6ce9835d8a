"""A major change under the id that is live: both contents name the same two flags, and neither may kill the other."""

from datetime import timedelta
from typing import Any, Final

import pytest

from sidecar.core.definitions.cards.card import Card
from sidecar.core.identifiers import ModelId
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.enum_words import word
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requirement import requirement

PROMOTE, ROLLBACK = pb.LIFECYCLE_STATE_PROMOTE, pb.LIFECYCLE_STATE_ROLLBACK
INSIDE: Final = "user-20"
"""In bucket 131 of the salt `shop`, which the first rollout of the slot has."""
FLAG: Final = "ai_assistant_subagent_shop"
LIVE, NEXT = gated("shop"), gated("shop", model=ModelId("another-model"))


async def served(bench: OperatedSidecar, principal: str = INSIDE) -> list[str]:
    """Return the digests that serve a user."""
    bound = await bench.sidecar.bind(principal=principal)
    return [tool.digest for tool in bound.surface.sub_agent_tools]


async def beside_the_live_one(bench: OperatedSidecar) -> None:
    """Serve LIVE to everybody, and promote NEXT to 0 %; every loop has looked since."""
    await bench.promoted(500)
    await bench.step("SetRamp", ramp_basis_points=10_000)
    await bench.configured(NEXT)
    for target in (pb.LIFECYCLE_STATE_TEST, PROMOTE):
        await bench.step("Transition", header=of(NEXT), target_state=target)
    await looked(bench)


async def looked(bench: OperatedSidecar) -> None:
    """Let a minute pass in which every loop looks."""
    for _ in range(3):
        bench.clock.time += timedelta(seconds=20)
        await bench.rollout.views.look()
        await bench.rollout.stops.edges.look()
        await bench.rollout.release_flags.look()


def of(card: Card) -> dict[str, Any]:
    """Return the fields of a header that name a content."""
    return {"digest": card.digest}


async def states(bench: OperatedSidecar) -> dict[str, int]:
    """Return the state of each content."""
    return {each.digest: each.state for each in (await bench.status()).definitions}


@requirement("PF1-FR-12b", "PF1-FR-12c", "PF1-D-26")
async def test_promoting_a_major_change_leaves_the_flags_of_the_live_one_on() -> None:
    """Its flags are there already; switched off, they would kill the definition that serves everybody."""
    async with an_operated_sidecar(LIVE) as bench:
        await beside_the_live_one(bench)
        assert bench.flags.on == {FLAG: True, f"{FLAG}_cohort": True}
        assert await states(bench) == {LIVE.digest: PROMOTE, NEXT.digest: PROMOTE}
        assert await served(bench) == [LIVE.digest]
        drifts = {each.digest: list(each.drifts) for each in (await bench.status()).definitions}
        assert not any("has not switched it on" in said for said in drifts[NEXT.digest])


@requirement("PF1-FR-5a", "PF1-FR-7b")
@pytest.mark.parametrize("method", ["RollBack", "Kill"])
async def test_stopping_the_new_one_leaves_the_one_before_alive(method: str) -> None:
    """Rolled back, the one before serves again; killed, nobody does until an operator activates it."""
    async with an_operated_sidecar(LIVE) as bench:
        await beside_the_live_one(bench)
        await bench.step("SetRamp", header=of(NEXT), ramp_basis_points=500)
        inside, outside = await bench.inside_and_outside(500)
        assert (await served(bench, inside), await served(bench, outside)) == ([NEXT.digest], [LIVE.digest])
        await bench.step(method, header=of(NEXT))
        await looked(bench)
        assert await states(bench) == {LIVE.digest: PROMOTE, NEXT.digest: ROLLBACK}
        if method == "Kill":
            assert await served(bench, inside) == await served(bench, outside) == []
            await bench.step("Activate", header=of(LIVE))
        assert await served(bench, inside) == await served(bench, outside) == [LIVE.digest]


@pytest.mark.parametrize("flag", [FLAG, f"{FLAG}_cohort"])
async def test_a_raise_of_the_new_one_does_not_end_the_pause_of_the_live_one(flag: str) -> None:
    """Switched on for the new one, the live one would be back for everybody else, which nobody has asked for."""
    async with an_operated_sidecar(LIVE) as bench:
        await beside_the_live_one(bench)
        bench.flags.on[flag] = False
        refused = await bench.refused("SetRamp", header=of(NEXT), ramp_basis_points=500)
        assert refused.reason == "TRANSITION_REFUSED"
        assert f"the flag {flag} is off, which keeps shop ({LIVE.digest[7:15]}) from its users" in refused.message
        assert (bench.flags.on[flag], await served(bench)) == (False, [])


@requirement("PF1-FR-9b", "PF1-FR-9d")
async def test_the_flag_that_both_name_kills_both() -> None:
    """Who switches it off in its backend means the sub-agent, whatever its content."""
    async with an_operated_sidecar(LIVE) as bench:
        await beside_the_live_one(bench)
        bench.flags.on[FLAG] = False
        await looked(bench)
        assert await states(bench) == {LIVE.digest: ROLLBACK, NEXT.digest: ROLLBACK}


async def test_with_the_store_away_the_shared_flag_is_switched_off_since_nothing_else_reaches_the_others() -> None:
    """A kill that only this replica knows of would leave it served everywhere else."""
    async with an_operated_sidecar(LIVE) as bench:
        await beside_the_live_one(bench)
        await bench.step("SetRamp", header=of(NEXT), ramp_basis_points=500)
        head = {**of(NEXT), "expected_revision": 0}
        bench.store.away = True
        answer = await bench.step("Kill", header=head)
        assert list(word(answer, "reached")) == ["replica", "flag"]
        assert bench.flags.on[FLAG] is False
