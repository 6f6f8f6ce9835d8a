"""Rolling back: whom it brings back is recorded with the promotion, proven first, and served at the next bind."""

from datetime import timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.files.problems import Problem
from sidecar.core.identifiers import Commit, Digest
from sidecar.policy.lifecycle import Verdict
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requirement import requirement

PROMOTE, ROLLBACK = pb.LIFECYCLE_STATE_PROMOTE, pb.LIFECYCLE_STATE_ROLLBACK
INSIDE: Final = "user-20"
"""In bucket 131 of the salt `shop`."""

OLD, MID, NEW = (
    gated("shop", enabled_via_flag=None),
    gated("shop2", slot="shop"),
    gated("shop3", slot="shop"),
)


async def served(bench: OperatedSidecar, principal: str = INSIDE) -> Digest | None:
    """Return who serves a user at the next bind."""
    bound = await bench.sidecar.bind(principal=principal)
    digests = [Digest(tool.digest) for tool in bound.surface.sub_agent_tools]
    return digests[0] if digests else None


async def to_everybody(bench: OperatedSidecar, name: str) -> None:
    """Bring a definition to everybody."""
    await bench.promoted(500, name)
    await bench.step("SetRamp", name, ramp_basis_points=10_000)


async def replaced(bench: OperatedSidecar, *cards: Card) -> None:
    """Let each card after the first replace the one before; the configuration ends with the last only."""
    for number, card in enumerate(cards[1:], 1):
        await bench.configured(*cards[: number + 1])
        await to_everybody(bench, card.definition.id)
    await bench.configured(cards[-1])


@requirement("PF1-FR-7b", "PF1-D-22")
async def test_each_promotion_records_the_stable_commit_before_it_and_a_rollback_resolves_to_it() -> None:
    """Three in a row: each names the one before, the first one explicitly nobody; two rollbacks go back two levels."""
    async with an_operated_sidecar(OLD, unflagged_at_once=True) as bench:
        await replaced(bench, OLD, MID, NEW)
        recorded = {
            each.definition_id: (each.target_digest, each.target_recorded)
            for each in (await bench.status()).definitions
        }
        serving = [await served(bench)]
        states = []
        for name in ("shop3", "shop2"):
            await bench.step("RollBack", name)
            serving.append(await served(bench))
            states.append({each.definition_id: each.state for each in (await bench.status()).definitions})

    assert recorded == {"shop": ("", True), "shop2": (OLD.digest, True), "shop3": (MID.digest, True)}
    assert serving == [NEW.digest, MID.digest, OLD.digest]
    assert states[0] == {"shop": PROMOTE, "shop2": PROMOTE, "shop3": ROLLBACK}
    assert states[1] == {"shop": PROMOTE, "shop2": ROLLBACK, "shop3": ROLLBACK}


def at_commit(number: int) -> Card:
    """Return a definition of the slot `shop` as a commit of its own holds it."""
    return replace(gated(f"shop-v{number}", slot="shop"), commit=Commit(f"{number}" * 40))


@requirement("PF1-FR-7a", "PF1-T-2")
async def test_a_promotion_records_the_git_commit_that_was_stable_before_it_and_not_merely_the_one_before() -> None:
    """The second was rolled back and the third never left `dev`: the fourth records the first, and leads back to it."""
    first, second, third, fourth = (at_commit(number) for number in range(1, 5))
    async with an_operated_sidecar(first) as bench:
        await to_everybody(bench, "shop-v1")
        await bench.configured(first, second)
        await to_everybody(bench, "shop-v2")
        await bench.step("RollBack", "shop-v2")
        await bench.configured(first, second, third, fourth)
        await to_everybody(bench, "shop-v4")
        found = {each.digest: each for each in (await bench.status()).definitions}
        before = await served(bench)
        await bench.step("RollBack", "shop-v4")
        after = await served(bench)
        moved = [row.transition for row in await bench.audit() if row.HasField("transition")][-1]

    targets = {name: found[found[card.digest].target_digest].commit for name, card in (("2", second), ("4", fourth))}
    assert targets == {"2": "1" * 40, "4": "1" * 40}
    assert (before, after) == (fourth.digest, first.digest)
    assert moved.agent_definition_commit == "4" * 40


@requirement("PF1-FR-5a", "PF1-FR-8c", "PF1-T-8", "PF1-AC-5a")
async def test_a_rollback_from_everybody_is_served_by_the_very_next_bind_and_how_long_it_took_is_measured() -> None:
    """No refresh is waited for: when the step is answered, a bind resolves to the target; here two seconds later."""
    async with an_operated_sidecar(OLD, unflagged_at_once=True) as bench:
        await replaced(bench, OLD, NEW)
        before = await served(bench)
        answer = await bench.step("RollBack", "shop3")
        bench.clock.time += timedelta(seconds=2)
        after = await served(bench, "user-0")
        await bench.rollout.stops.effective.look()
        measured = bench.sidecar.recorder.of("rolled_back")

    assert (before, after) == (NEW.digest, OLD.digest)
    assert (answer.state, answer.changed) == (ROLLBACK, True)
    assert measured == [("shop3", 2.0)]


@requirement("PF1-FR-5a")
async def test_a_revert_of_the_configuration_or_its_cohort_flag_off_takes_a_change_back_at_the_next_bind() -> None:
    """A minor revision is reverted by its file; a sub-agent is off for everybody as soon as its cohort flag is."""
    shop = gated("shop")
    revised = gated("shop", description="Knows about shop, in other words.")
    async with an_operated_sidecar(shop) as bench:
        await bench.promoted(500)
        first = await served(bench)
        await bench.configured(revised)
        second = await served(bench)
        await bench.configured(shop)
        reverted = await served(bench)
        bench.flags.on["ai_assistant_subagent_shop_cohort"] = False
        off = await served(bench)
        status = (await bench.status()).definitions

    assert (first, second, reverted, off) == (shop.digest, revised.digest, shop.digest, None)
    assert [each.state for each in status] == [PROMOTE]


@requirement("PF1-FR-12b", "PF1-FR-12c", "PF1-T-11")
async def test_a_model_swap_enters_at_dev_passes_all_three_gates_and_leaves_the_one_before_as_target() -> None:
    """A new id in the slot: `pre_merge`, `pre_ramp`, `pre_full` again; the one before stays in `promote`, inactive."""
    async with an_operated_sidecar(OLD, unflagged_at_once=True) as bench:
        await bench.configured(OLD, NEW)
        entered = {each.definition_id: each.state for each in (await bench.status()).definitions}
        too_early = await bench.refused("SetRamp", "shop3", ramp_basis_points=500)
        await replaced(bench, OLD, NEW)
        after = {each.definition_id: (each.state, each.active) for each in (await bench.status()).definitions}
        await bench.step("RollBack", "shop3")
        back = await served(bench)

    assert entered == {"shop": PROMOTE, "shop3": pb.LIFECYCLE_STATE_DEV}
    assert too_early.reason == "TRANSITION_REFUSED"
    assert [each.gate for each in bench.gates.asked] == ["pre_merge", "pre_ramp", "pre_full"]
    assert {each.definition_id for each in bench.gates.asked} == {"shop3"}
    assert after == {"shop": (PROMOTE, False), "shop3": (PROMOTE, True)}
    assert back == OLD.digest


async def test_a_rollback_is_refused_before_it_acts_if_its_target_does_not_hash_or_is_gone() -> None:
    """Another content under its digest, nothing readable, nothing at all: all stays; a kill is still possible."""
    refused = []
    async with an_operated_sidecar(OLD, unflagged_at_once=True) as bench:
        await replaced(bench, OLD, NEW)
        bench.sidecar.definitions.forget(OLD.digest)  # as a restart does: its entry is in the configuration no more
        kept = bench.contents.definitions[OLD.digest]
        before = await bench.status()
        for text in (kept.card_json.replace("Knows about", "Sells"), "{"):
            bench.contents.definitions[OLD.digest] = msgspec.structs.replace(kept, card_json=text)
            refused.append(await bench.refused("RollBack", "shop3"))
        del bench.contents.definitions[OLD.digest]
        refused.append(await bench.refused("RollBack", "shop3"))
        after = await bench.status()
        killed = await bench.step("Kill", "shop3")

    assert {each.reason for each in refused} == {"TRANSITION_REFUSED"}
    assert "hashes to another digest; name another target, or none" in refused[0].message
    assert {each.metadata["choices"] for each in refused} == {"none"}
    assert before.revision == after.revision
    assert killed.state == ROLLBACK


async def test_a_rollback_of_what_the_configuration_has_lost_serves_what_is_kept_of_it() -> None:
    """Its entry is gone from configuration and memory: the kept content still hashes, and the step is taken."""
    async with an_operated_sidecar(OLD, unflagged_at_once=True) as bench:
        await replaced(bench, OLD, NEW)
        bench.sidecar.definitions.forget(OLD.digest)
        answer = await bench.step("RollBack", "shop3")
        card = bench.rollout.definition_watch.card(OLD.digest)

    assert (answer.changed, card) == (True, OLD)


@requirement("PC1-T-17", "PC1-D-47")
async def test_promotion_runs_the_validator_over_the_configuration_as_it_is_now() -> None:
    """Errors anywhere, and an entry that is gone, refuse it before a gate is asked; mended, it passes."""
    async with an_operated_sidecar() as bench:
        await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_TEST)
        definitions = bench.sidecar.definitions
        definitions.problems = (Problem("agent_config.yaml", 7, "agents[0].model", "is no model"),)
        broken = await bench.refused("Transition", target_state=PROMOTE)
        definitions.problems = ()
        await bench.configured(gated("rewards"))
        gone = await bench.refused("Transition", target_state=PROMOTE)
        asked = len(bench.gates.asked)
        await bench.configured(gated("shop"))
        bench.gates.say["pre_merge"] = Verdict.PASS
        promoted = await bench.step("Transition", target_state=PROMOTE)

    assert (broken.reason, gone.reason, asked) == ("TRANSITION_REFUSED", "TRANSITION_REFUSED", 0)
    assert "`sidecar validate`: agent_config.yaml:7" in broken.message
    assert "does not have shop with that content" in gone.message
    assert promoted.state == PROMOTE
