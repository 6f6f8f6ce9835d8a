"""Steps of a rollout through the RPC: states, ramps, gates, who is served meanwhile, and the way back."""

from typing import Final

import grpc
import pytest

from sidecar.core.rollout.facts import FlagPair
from sidecar.core.rollout.states import LifecycleState
from sidecar.policy.lifecycle import Verdict
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.builders import a_card, a_catalogue
from tests.support.enum_words import gate_lines
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requests import failure_from
from tests.support.requirement import requirement

TEST, PROMOTE, ROLLBACK = (
    pb.LIFECYCLE_STATE_TEST,
    pb.LIFECYCLE_STATE_PROMOTE,
    pb.LIFECYCLE_STATE_ROLLBACK,
)
OUTSIDE: Final = "user-0"
"""In bucket 6576 of the salt `shop`."""
INSIDE: Final = "user-20"
"""In bucket 131."""

ALLOWED: Final = {("dev", "test"), ("test", "promote"), ("test", "rollback"), ("promote", "rollback")}
PAIRS: Final = [(source, target) for source in LifecycleState for target in LifecycleState]


async def tried(bench: OperatedSidecar, target: LifecycleState) -> str:
    """Ask for a move by the RPC that is for it; return the new state, or the reason that it is refused with."""
    number = pb.LifecycleState.Value(f"LIFECYCLE_STATE_{target.name}")
    try:
        if target is LifecycleState.ROLLBACK:
            return pb.LifecycleState.Name((await bench.step("RollBack")).state)
        return pb.LifecycleState.Name((await bench.step("Transition", target_state=number)).state)
    except grpc.aio.AioRpcError as error:
        return failure_from(error).reason


@requirement("PF1-T-1", "PF1-FR-1a", "PF1-FR-1b", "PF1-FR-1c")
async def test_of_the_sixteen_moves_between_four_states_four_are_possible() -> None:
    """The whole matrix; each refusal says what it is, and leaves the state as it was."""
    assert [state.value for state in LifecycleState] == ["dev", "test", "promote", "rollback"]
    found = {}
    async with an_operated_sidecar() as bench:
        for source, target in PAIRS:
            await bench.put(bench.facts(source))
            found[(source.value, target.value)] = await tried(bench, target)
            after = (await bench.status()).definitions[0].state
            moved = (source.value, target.value) in ALLOWED
            assert after == pb.LifecycleState.Value(f"LIFECYCLE_STATE_{(target if moved else source).name}")

    allowed = {pair for pair, said in found.items() if said == f"LIFECYCLE_STATE_{pair[1].upper()}"}
    assert allowed == ALLOWED
    assert {said for pair, said in found.items() if pair not in ALLOWED} == {"TRANSITION_REFUSED"}


@requirement("PF1-D-13", "PF1-D-14", "PF1-D-15")
async def test_nothing_leads_out_of_rollback_but_a_new_definition() -> None:
    """It is not moved, ramped or activated again; the message says to author a new one, which begins at dev."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        await bench.step("RollBack")
        refused = [
            await bench.refused("Transition", target_state=TEST),
            await bench.refused("Transition", target_state=PROMOTE),
            await bench.refused("SetRamp", ramp_basis_points=100),
            await bench.refused("Activate"),
            await bench.refused("RollBack"),
        ]
        bench.sidecar.definitions.load(a_catalogue(gated("shop"), gated("shop2", slot="shop")))
        await bench.rollout.definition_watch.look()
        states = {each.definition_id: each.state for each in (await bench.status()).definitions}

    assert [each.reason for each in refused] == ["TRANSITION_REFUSED"] * 5
    assert "author a new definition" in refused[0].message
    assert states == {"shop": ROLLBACK, "shop2": pb.LIFECYCLE_STATE_DEV}


@requirement("PF1-T-7", "PF1-D-8", "PF1-D-9", "PF1-FR-4b")
async def test_a_definition_goes_from_dev_to_everybody_through_its_three_gates() -> None:
    """`pre_merge` to promote, `pre_ramp` for the first share and each further one, `pre_full` for all."""
    async with an_operated_sidecar() as bench:
        await bench.step("Transition", target_state=TEST)
        assert bench.gates.asked == []
        await bench.step("Transition", target_state=PROMOTE)
        offered = [await bench.offers(INSIDE)]
        for ramp in (500, 5000, 10_000):
            await bench.step("SetRamp", ramp_basis_points=ramp)
            offered.append(await bench.offers(INSIDE) + await bench.offers(OUTSIDE))

    steps = [(asked.gate, asked.from_ramp, asked.to_ramp) for asked in bench.gates.asked]
    assert steps == [("pre_merge", 0, 0), ("pre_ramp", 0, 500), ("pre_ramp", 500, 5000), ("pre_full", 5000, 10_000)]
    assert offered == [[], ["ask_shop"], ["ask_shop"], ["ask_shop", "ask_shop"]]


@requirement("PF1-D-5", "PF1-D-6", "PF1-FR-4a", "PF1-D-10")
async def test_only_promotion_asks_pre_merge_and_without_its_pass_nothing_moves() -> None:
    """`dev` to `test` asks nobody; `test` to `promote` waits for the gate's yes and for somebody who asks for it."""
    async with an_operated_sidecar() as bench:
        bench.gates.say["pre_merge"] = Verdict.FAIL
        await bench.step("Transition", target_state=TEST)
        failed = await bench.refused("Transition", target_state=PROMOTE)
        bench.gates.say["pre_merge"] = Verdict.PENDING
        held = await bench.refused("Transition", target_state=PROMOTE)
        waiting = (await bench.status()).definitions[0].state
        bench.gates.say["pre_merge"] = Verdict.PASS
        still = (await bench.status()).definitions[0].state
        answer = await bench.step("Transition", target_state=PROMOTE)

    assert (failed.reason, failed.metadata["gate"], held.reason) == ("GATE_FAILED", "pre_merge", "GATE_HELD")
    assert (waiting, still, answer.state, answer.ramp_basis_points, answer.active) == (TEST, TEST, PROMOTE, 0, False)
    assert gate_lines(answer) == ["pre_merge: pass: as scripted"]


@requirement("PF1-FR-3a", "PF1-D-17")
async def test_a_new_definition_is_promoted_behind_its_flags_only() -> None:
    """One without `enabled_via_flag` beside one that serves is refused; with it, it is there and called by nobody."""
    async with an_operated_sidecar(gated("shop"), gated("shop2", slot="shop", enabled_via_flag=None)) as bench:
        await bench.step("Transition", "shop2", target_state=TEST)
        refused = await bench.refused("Transition", "shop2", target_state=PROMOTE)
        await bench.promoted()
        flags = dict(bench.flags.on)
        offered = await bench.offers(INSIDE)

    assert refused.reason == "TRANSITION_REFUSED"
    assert "enabled_via_flag" in refused.message
    assert flags == {"ai_assistant_subagent_shop": False, "ai_assistant_subagent_shop_cohort": False}
    assert offered == []


@requirement("PF1-FR-3c", "PF1-D-16", "PF1-D-28")
async def test_the_first_step_is_below_everybody_and_a_ramp_is_no_state() -> None:
    """100 % at once is refused; any ramp leaves the state `promote`."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        refused = await bench.refused("SetRamp", ramp_basis_points=10_000)
        answers = [await bench.step("SetRamp", ramp_basis_points=ramp) for ramp in (9999, 10_000, 1)]

    assert refused.reason == "TRANSITION_REFUSED"
    assert "below 100 %" in refused.message
    assert [(each.state, each.ramp_basis_points) for each in answers] == [
        (PROMOTE, 9999),
        (PROMOTE, 10_000),
        (PROMOTE, 1),
    ]


@requirement("PF1-D-7", "PF1-D-20", "PF1-D-35")
async def test_flags_are_created_off_and_come_on_with_the_first_share_once_its_gate_has_passed() -> None:
    """Not with the promotion, not with a refused step; the next bind reads them."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        created = sorted(bench.flags.on.values())
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        await bench.refused("SetRamp", ramp_basis_points=500)
        refused = sorted(bench.flags.on.values())
        bench.gates.say["pre_ramp"] = Verdict.PASS
        await bench.step("SetRamp", ramp_basis_points=500)
        offered = await bench.offers(INSIDE)
        too_early = await bench.refused("RetireFlags")
        await bench.step("SetRamp", ramp_basis_points=10_000)
        done = await bench.step("RetireFlags")
        bench.flags.on.clear()
        retired = (await bench.status()).definitions[0].flag_pair, await bench.offers(OUTSIDE)

    assert (created, refused, sorted(bench.flags.on)) == ([False, False], [False, False], [])
    assert offered == ["ask_shop"]
    assert too_early.reason == "TRANSITION_REFUSED"
    assert retired == (pb.FLAG_PAIR_RETIRED, ["ask_shop"])
    assert list(done.warnings) == [
        "remove `enabled_via_flag: ai_assistant_subagent_shop` from the entry of shop: it does nothing any more"
    ]


@requirement("PF1-D-35")
@pytest.mark.parametrize("away", [False, True], ids=["paused", "backend away"])
async def test_flags_that_keep_somebody_away_are_not_let_go(away: bool) -> None:
    """Served to nobody while the cohort flag is off or nobody can say: without its flags everybody would have it."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        await bench.step("SetRamp", ramp_basis_points=10_000)
        bench.flags.on["ai_assistant_subagent_shop_cohort"], bench.flags.away = away, away
        before = await bench.offers(INSIDE)
        refused = await bench.refused("RetireFlags")
        after = await bench.offers(INSIDE)
        pair = (await bench.status()).definitions[0].flag_pair

    assert refused.reason == "TRANSITION_REFUSED"
    assert "which keeps shop" in refused.message
    assert (before, after, pair) == ([], [], pb.FLAG_PAIR_SWITCHED_ON)


@requirement("PF1-AC-3a", "PF1-AC-3b", "PF1-D-12", "PF1-FR-3d")
@pytest.mark.parametrize(("to", "gate"), [(5000, "pre_ramp"), (10_000, "pre_full")])
async def test_a_gate_that_says_no_leaves_the_ramp_and_everybody_in_it_where_they_are(to: int, gate: str) -> None:
    """At 5 % and on the way up; only an operator's next request moves anything."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        bench.gates.say[gate] = Verdict.FAIL
        failed = await bench.refused("SetRamp", ramp_basis_points=to)
        status = (await bench.status()).definitions[0]
        offered = await bench.offers(INSIDE), await bench.offers(OUTSIDE)
        bench.gates.say[gate] = Verdict.PASS
        later = (await bench.status()).definitions[0].ramp_basis_points
        raised = await bench.step("SetRamp", ramp_basis_points=to)

    assert (failed.reason, failed.metadata["gate"]) == ("GATE_FAILED", gate)
    assert (status.state, status.ramp_basis_points, later, raised.ramp_basis_points) == (PROMOTE, 500, 500, to)
    assert offered == (["ask_shop"], [])
    assert gate in [each.gate for each in status.last_gate_answers]


@requirement("PF1-FR-4c")
async def test_an_operator_may_let_one_fail_pass_for_one_step_and_for_nothing_else() -> None:
    """Not for another ramp, not for the same step a second time; an outage is not let pass at all."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        await bench.step("OverrideGate", gate="pre_ramp", ramp_basis_points=2000, expires_at=bench.in_an_hour())
        other = await bench.refused("SetRamp", ramp_basis_points=3000)
        bench.gates.say["pre_ramp"] = None
        away = await bench.refused("SetRamp", ramp_basis_points=2000)
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        passed = await bench.step("SetRamp", ramp_basis_points=2000)
        await bench.step("SetRamp", ramp_basis_points=500)
        again = await bench.refused("SetRamp", ramp_basis_points=2000)
        needless = await bench.refused(
            "OverrideGate", gate="pre_full", ramp_basis_points=2500, expires_at=bench.in_an_hour()
        )

    assert (other.reason, away.reason, needless.reason) == ("GATE_FAILED", "GATE_HELD", "TRANSITION_REFUSED")
    assert again.reason == "GATE_FAILED"
    assert gate_lines(passed) == ["pre_ramp: fail: as scripted; passed by an operator's override"]


@requirement("PF1-D-4", "PF1-D-64")
async def test_no_time_that_passes_moves_anything() -> None:
    """A month at 5 % with every gate on green: still 5 %."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        before = await bench.status()
        bench.clock.time = bench.clock.time.replace(month=12)
        await bench.rollout.definition_watch.look()
        await bench.rollout.views.look()
        after = await bench.status()

    assert after == before


@requirement("PF1-D-31", "PF1-D-32", "PF1-D-33")
async def test_a_breach_takes_the_ramp_to_nothing_and_a_person_and_a_gate_have_to_let_it_up_again() -> None:
    """It stays in `promote`, seen from the ramp; the next raise wants the acknowledgement and `pre_ramp`."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        down = await bench.step("RampDown", breach_id="floor-7", role="breaker")
        seen = (await bench.status()).definitions[0]
        offered = await bench.offers(INSIDE)
        unnoted = await bench.refused("SetRamp", ramp_basis_points=500)
        wrong = await bench.refused("AcknowledgeBreach", breach_id="floor-8")
        await bench.step("AcknowledgeBreach", breach_id="floor-7")
        bench.gates.asked.clear()
        raised = await bench.step("SetRamp", ramp_basis_points=10_000)
        after = (await bench.status()).definitions[0]
        back = await bench.step("RollBack")

    assert (down.state, down.ramp_basis_points, seen.breach.breach_id) == (PROMOTE, 0, "floor-7")
    assert (offered, unnoted.reason, wrong.reason) == ([], "TRANSITION_REFUSED", "TRANSITION_REFUSED")
    assert unnoted.metadata["breach_id"] == "floor-7"
    assert [asked.gate for asked in bench.gates.asked] == ["pre_ramp", "pre_full"]
    assert (raised.ramp_basis_points, after.HasField("breach"), back.state) == (10_000, False, ROLLBACK)


@requirement("PF1-D-29", "PF1-D-2")
async def test_what_is_said_of_a_definition_comes_from_three_sources_and_contradictions_are_shown() -> None:
    """Configuration, flags and rollout; a flag switched past the rollout and an entry that is gone are drift."""
    async with an_operated_sidecar() as bench:
        await bench.put(bench.facts(LifecycleState.TEST, flags=FlagPair.NAMED))
        bench.flags.on["ai_assistant_subagent_shop"] = True
        early = (await bench.status()).definitions[0]
        facts = bench.facts(LifecycleState.PROMOTE, ramp=500)
        await bench.put(facts, active=facts.digest)
        bench.flags.on["ai_assistant_subagent_shop"] = False
        bench.sidecar.definitions.load(a_catalogue(gated("rewards")))
        late = (await bench.status()).definitions[0]

    assert len(early.drifts) == 1
    assert "is on, and the rollout has not switched it on" in early.drifts[0]
    assert (late.active, late.in_configuration, len(late.drifts)) == (True, False, 3)


async def test_a_raise_switches_on_the_flags_that_a_revision_has_named() -> None:
    """Served to everybody, then gated: gone until its flags are on, which the next raise does once its gate passed."""
    flag = "ai_assistant_subagent_shop"
    async with an_operated_sidecar(a_card("shop"), unflagged_at_once=True) as bench:
        before = await bench.offers(OUTSIDE)
        bench.sidecar.definitions.load(a_catalogue(gated("shop")))
        await bench.rollout.definition_watch.look()
        named = await bench.offers(OUTSIDE)
        await bench.step("SetRamp", ramp_basis_points=9_000)
        lowered = dict(bench.flags.on)
        bench.gates.asked.clear()
        await bench.step("SetRamp", ramp_basis_points=10_000)
        raised = await bench.offers(OUTSIDE)

    assert (before, named, raised) == (["ask_shop"], [], ["ask_shop"])
    assert (lowered.get(flag), bench.flags.on[flag], bench.flags.on[f"{flag}_cohort"]) == (None, True, True)
    assert [asked.gate for asked in bench.gates.asked] == ["pre_full"]
