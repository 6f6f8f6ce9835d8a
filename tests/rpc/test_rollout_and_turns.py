"""What the steps of a rollout mean for turns: what is offered, what goes on, what a trace tells; nothing is torn."""

import asyncio
from typing import Final

from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import Digest
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.call_counting import CallCounter
from tests.support.enum_words import word
from tests.support.fake_runner import answers
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requirement import requirement

PROMOTE, ROLLBACK = pb.LIFECYCLE_STATE_PROMOTE, pb.LIFECYCLE_STATE_ROLLBACK
KILL: Final = "ai_assistant_subagent_shop"
INSIDE: Final = "user-20"
"""In bucket 131 of the salt `shop`."""
FIRST: Final = "user-286"
"""In bucket 0 of that salt: the first that a ramp reaches."""

CHECK: Final = ("sidecar.core.rollout", "sidecar.core.binding.candidates", "sidecar.core.flag_states")
"""Where it is decided who is served."""
OLD, NEW = gated("shop", enabled_via_flag=None), gated("shop2", slot="shop")


async def served(bench: OperatedSidecar) -> Digest | None:
    """Return who serves a user at the next bind."""
    bound = await bench.sidecar.bind(principal=INSIDE)
    digests = [Digest(tool.digest) for tool in bound.surface.sub_agent_tools]
    return digests[0] if digests else None


async def replaced(bench: OperatedSidecar) -> None:
    """Let the new definition replace the old one, for everybody."""
    await bench.configured(OLD, NEW)
    await bench.promoted(500, "shop2")
    await bench.step("SetRamp", "shop2", ramp_basis_points=10_000)


@requirement("PF1-FR-2a", "PF1-FR-2c", "PF1-T-14", "PF1-FR-9a")
async def test_promotion_is_the_registered_entry_becoming_active_behind_its_cohort_flag() -> None:
    """The same entry before and after; its flags are created with the promotion and come on with the first share."""
    async with an_operated_sidecar() as bench:
        card = bench.sidecar.definitions.current_card("shop")
        registered = await served(bench), dict(bench.flags.on)
        await bench.promoted()
        promoted = await served(bench), dict(bench.flags.on)
        await bench.step("SetRamp", ramp_basis_points=500)
        active = await served(bench), dict(bench.flags.on)
        tool = (await bench.sidecar.bind(principal=INSIDE)).surface.sub_agent_tools[0]
        bench.flags.on[f"{KILL}_cohort"] = False
        without = await served(bench)
        same = bench.sidecar.definitions.current_card("shop")

    assert registered == (None, {})
    assert promoted == (None, {KILL: False, f"{KILL}_cohort": False})
    assert active == (card.digest, {KILL: True, f"{KILL}_cohort": True})
    assert (tool.name, tool.description, tool.sub_agent_id) == ("ask_shop", card.definition.description, "shop")
    assert (without, same) == (None, card)


@requirement("PF1-FR-2d")
async def test_a_ramp_that_rises_is_no_transition() -> None:
    """Three shares: the state stays `promote`, and no lifecycle event is written."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        before = [row.sequence for row in await bench.audit() if row.HasField("transition")]
        answers_of = [await bench.step("SetRamp", ramp_basis_points=ramp) for ramp in (500, 5000, 10_000)]
        rows = await bench.audit()

    assert {each.state for each in answers_of} == {PROMOTE}
    assert [row.sequence for row in rows if row.HasField("transition")] == before
    assert [row.rollout.after_basis_points for row in rows if word(row.rollout, "kind") == "ramp_set"] == [
        500,
        5000,
        10_000,
    ]


@requirement("PF1-D-66")
async def test_a_ramp_reaches_exactly_the_buckets_below_it_and_ramped_down_none() -> None:
    """The user in bucket 131 comes in at 1.32 %, not at 1.31 %; at 0 the one in bucket 0 is out, too."""
    found = []
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        found.append((await bench.offers(FIRST), await bench.offers(INSIDE)))
        for ramp in (1, 131, 132):
            await bench.step("SetRamp", ramp_basis_points=ramp)
            found.append((await bench.offers(FIRST), await bench.offers(INSIDE)))
        await bench.step("RampDown", breach_id="floor-7")
        found.append((await bench.offers(FIRST), await bench.offers(INSIDE)))

    nobody, shop = list[str](), ["ask_shop"]
    assert found == [(nobody, nobody), (shop, nobody), (shop, nobody), (shop, shop), (nobody, nobody)]


@requirement("PF1-FR-3b")
async def test_the_cohort_of_a_ramped_turn_has_versions_flags_arm_and_sub_agents() -> None:
    """Of the definitions and both registries; two users of one cohort share it, in and out of the ramp they do not."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        inside, again, outside = [
            (await bench.sidecar.bind(principal=user, experiment_arm="treatment")).surface
            for user in (INSIDE, INSIDE, "user-0")
        ]

    cohort = inside.cohort
    assert (cohort.agent_definition_version, cohort.prompt_block_registry_version) == ("definitions-1", "blocks-1")
    assert cohort.xml_prompt_component_registry_version == "capabilities-1"
    assert list(cohort.active_feature_flags) == [KILL, f"{KILL}_cohort"]
    assert (cohort.experiment_arm_assignment, list(cohort.active_sub_agents)) == ("treatment", ["shop"])
    assert (again.cohort, inside.prompt.prefix_digest) == (cohort, again.prompt.prefix_digest)
    assert list(outside.cohort.active_sub_agents) == []


@requirement("PF1-T-10b")
async def test_a_trace_tells_the_two_cohorts_of_an_experiment_apart() -> None:
    """The routing decision of each turn carries the arm, the sub-agents, and why the control arm had none."""
    decisions = {}
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        for arm in ("treatment", "control"):
            bound = await bench.sidecar.bind(principal=INSIDE, experiment_arm=arm)
            decisions[arm] = (await bench.sidecar.end(bound)).routing_decision

    said = {
        arm: (each.cohort.experiment_arm_assignment, list(each.cohort.active_sub_agents))
        for arm, each in decisions.items()
    }
    assert said == {"treatment": ("treatment", ["shop"]), "control": ("control", [])}
    names = {arm: [str(one.verdict) for one in each.candidates] for arm, each in decisions.items()}
    assert names["treatment"] != names["control"]


@requirement("PF1-NFR-2b", "PF1-FR-8a")
async def test_while_a_rollback_is_taken_every_bind_finds_one_definition_whole() -> None:
    """Binds all through the step: the new one, then the target; never nobody, never back again, never two."""
    async with an_operated_sidecar(OLD, unflagged_at_once=True) as bench:
        await replaced(bench)
        seen: list[Digest | None] = [await served(bench)]
        step = asyncio.ensure_future(bench.step("RollBack", "shop2"))
        while not step.done():
            seen.append(await served(bench))
        seen.append(await served(bench))

    turned = seen.index(OLD.digest)
    assert turned > 0
    assert set(seen[:turned]) == {NEW.digest}
    assert set(seen[turned:]) == {OLD.digest}


@requirement("PF1-T-18a", "PF1-T-18b")
async def test_a_refresh_that_fails_in_the_middle_of_a_rollback_hurts_no_turn_and_is_tried_again() -> None:
    """On record, and then the store does not answer: the turn under way ends well, and the next look has the target."""
    async with an_operated_sidecar(OLD, unflagged_at_once=True) as bench:
        bench.sidecar.runner.use("shop", answers())
        await replaced(bench)
        under_way = await bench.sidecar.bind(principal=INSIDE)
        reads = bench.store.rollouts

        async def lost() -> None:
            raise StoreUnavailable("the database went away")

        write = bench.store.write

        async def write_and_go(change: object) -> None:
            await write(change)  # type: ignore[arg-type]  # whatever is written
            bench.store.rollouts = lost  # type: ignore[assignment,method-assign]  # the fault itself

        bench.store.write = write_and_go  # type: ignore[method-assign]  # the fault itself
        answer = await bench.step("RollBack", "shop2")
        meanwhile = await served(bench)
        reply = await bench.sidecar.dispatch(under_way, "ask_shop")
        bench.store.rollouts = reads  # type: ignore[method-assign]  # it is back
        await bench.rollout.views.look()
        after = await served(bench)

    assert (answer.state, answer.changed) == (ROLLBACK, True)
    assert reply.outcomes == ["SUCCEEDED"]
    assert (meanwhile, after) == (NEW.digest, OLD.digest)


@requirement("PF1-AC-10", "PF1-NFR-4b")
async def test_the_cohort_check_is_a_small_part_of_a_bind_and_asks_nobody() -> None:
    """Ten ramped sub-agents, store and gates away: the bind is answered, and neither of them is called.

    How many calls the check itself is, is for the budgets.
    """
    names = [f"agent{number}" for number in range(10)]
    async with an_operated_sidecar(*map(gated, names)) as bench:
        for name in names:
            slot = {"slot": name}
            for target in (pb.LIFECYCLE_STATE_TEST, PROMOTE):
                await bench.step("Transition", name, header=slot, target_state=target)
            await bench.step("SetRamp", name, header=slot, ramp_basis_points=5000)
        await bench.sidecar.bind(principal=INSIDE)
        bench.store.away = True
        with CallCounter().counting() as counter:
            bound = await bench.sidecar.bind(principal=INSIDE)
        served = len(bound.surface.sub_agent_tools)

    called = {each.module for each in counter.counted}
    assert 0 < served < len(names)
    assert any(module.startswith(CHECK) for module in called)
    assert not any(module.startswith(("sidecar.adapters.rollout", "sidecar.policy")) for module in called)
