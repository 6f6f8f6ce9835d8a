"""The rollout config of a sub-agent, as an operator declares it: mode, arms, ramp curve."""

from collections import Counter
from datetime import timedelta
from typing import Final

from sidecar.policy.lifecycle import PolicyAnswer, Step, StepFacts, Verdict
from sidecar_lifecycle_examples.observation_time import ObservationTime
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.enum_words import gate_lines, word
from tests.support.fake_runner import answers, raises
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requests import a_call
from tests.support.requirement import requirement

EXPERIMENT, FULL = pb.ROLLOUT_MODE_EXPERIMENT, pb.ROLLOUT_MODE_FULL
INSIDE: Final = "user-20"
"""In bucket 131 of the salt `shop`."""
OUTSIDE: Final = "user-0"
"""In bucket 6576."""


async def arms(bench: OperatedSidecar, principal: str = INSIDE) -> dict[str, list[str]]:
    """Return what one user is offered in each arm."""
    return {arm: await bench.offers(principal, experiment_arm=arm) for arm in ("treatment", "", "control")}


@requirement("PF1-AC-2a", "PF1-AC-2b", "PF1-T-10a", "PF1-FR-2c")
async def test_an_experiment_serves_the_treatment_arm_and_leaves_the_control_arm_without() -> None:
    """At each ramp: who is inside and not in the control arm; `full` knows no arms."""
    async with an_operated_sidecar() as bench:
        await bench.step("ConfigureRollout", mode=EXPERIMENT, curve_basis_points=[500, 10_000])
        await bench.promoted()
        nobody = await arms(bench)
        await bench.step("SetRamp", ramp_basis_points=500)
        some, outside = await arms(bench), await arms(bench, OUTSIDE)
        await bench.step("SetRamp", ramp_basis_points=10_000)
        everybody = await arms(bench, OUTSIDE)
        await bench.step("ConfigureRollout", mode=FULL, curve_basis_points=[500, 10_000])
        full = await arms(bench, OUTSIDE)

    assert nobody == outside == {"treatment": [], "": [], "control": []}
    assert some == everybody == {"treatment": ["ask_shop"], "": ["ask_shop"], "control": []}
    assert full == {"treatment": ["ask_shop"], "": ["ask_shop"], "control": ["ask_shop"]}


@requirement("PF1-AC-2b")
async def test_the_control_arm_of_a_replacement_goes_on_with_what_it_had() -> None:
    """The replacement at 5 %: its control arm is served by the one before, whatever the bucket."""
    old, new = gated("shop", enabled_via_flag=None), gated("shop2", slot="shop")
    async with an_operated_sidecar(old, unflagged_at_once=True) as bench:
        await bench.configured(old, new)
        await bench.promoted(500, "shop2")
        inside, _ = await bench.inside_and_outside(500)
        served = {}
        for arm in ("treatment", "control"):
            bound = await bench.sidecar.bind(principal=inside, experiment_arm=arm)
            served[arm] = [tool.digest for tool in bound.surface.sub_agent_tools]

    assert served == {"treatment": [new.digest], "control": [old.digest]}


async def test_calls_of_a_replacement_are_counted_apart_from_those_of_its_predecessor() -> None:
    """At 5 %: the replacement fails, its predecessor answers; dropped, refused and unknown calls are counted, too."""
    old, new = gated("shop", enabled_via_flag=None), gated("shop2", slot="shop")
    other = gated("rewards", enabled_via_flag=None)
    async with an_operated_sidecar(old, other, unflagged_at_once=True) as bench:
        await bench.configured(old, new, other)
        await bench.promoted(500, "shop2")
        inside, outside = await bench.inside_and_outside(500)
        for principal, script in ((inside, raises(RuntimeError("broken"))), (outside, answers("hello"))):
            bench.sidecar.runner.use("shop", script)
            bound = await bench.sidecar.bind(principal=principal)
            await bench.sidecar.dispatch(bound, "ask_shop")
        await bench.sidecar.dispatch(bound, "ask_nothing", a_call("call-2", "ask_shop", "{"))
        bound = await bench.sidecar.bind(principal=outside, experiment_arm="control")
        await bench.sidecar.dispatch(bound, *["ask_shop"] * 4)

    counted = Counter(bench.sidecar.recorder.of("call_settled"))
    assert counted == {
        ("shop", "shop2", "active", "failed", "RUNNER_FAILED"): 1,
        ("shop", "shop", "target", "succeeded", ""): 1,
        ("", "", "", "refused", "UNKNOWN_TOOL"): 1,
        ("shop", "shop", "target", "refused", "ARGUMENTS_INVALID"): 1,
        ("shop", "shop", "control", "succeeded", ""): 3,
        ("shop", "shop", "control", "dropped", "OVER_CAP"): 1,
    }


@requirement("PF1-D-40")
async def test_a_ramp_curve_is_declared_for_each_sub_agent_and_none_is_imposed() -> None:
    """Without one any step may be taken; with one its steps only, upwards; the other sub-agent is not touched."""
    async with an_operated_sidecar(gated("shop"), gated("rewards")) as bench:
        fresh = [list((await bench.status(slot)).curve_basis_points) for slot in ("shop", "rewards")]
        await bench.step("ConfigureRollout", mode=EXPERIMENT, curve_basis_points=[500, 2500, 10_000])
        await bench.promoted()
        refused = await bench.refused("SetRamp", ramp_basis_points=700)
        taken = [(await bench.step("SetRamp", ramp_basis_points=to)).ramp_basis_points for to in (500, 10_000, 700)]
        other = {"slot": "rewards"}
        for target in (pb.LIFECYCLE_STATE_TEST, pb.LIFECYCLE_STATE_PROMOTE):
            await bench.step("Transition", "rewards", header=other, target_state=target)
        free = await bench.step("SetRamp", "rewards", header=other, ramp_basis_points=700)

    assert fresh == [[], []]
    assert refused.reason == "TRANSITION_REFUSED"
    assert "7 % is not a declared step of shop; its curve is: 5 %, 25 %, 100 %" in refused.message
    assert (taken, free.ramp_basis_points) == ([500, 10_000, 700], 700)


async def test_the_rollout_config_shows_everything_that_such_a_config_holds() -> None:
    """Mode, curve, ramp of each definition, the active commit, the target's, and the revision that writes compare."""
    old, new = gated("shop", enabled_via_flag=None), gated("shop2", slot="shop")
    async with an_operated_sidecar(old, unflagged_at_once=True) as bench:
        await bench.configured(old, new)
        await bench.step("ConfigureRollout", "shop2", mode=EXPERIMENT, curve_basis_points=[1000, 10_000])
        await bench.promoted(1000, "shop2")
        status = await bench.status()
        rows = [row for row in await bench.audit() if word(row.rollout, "kind") == "configured"]

    by_id = {each.definition_id: each for each in status.definitions}
    assert (status.mode, list(status.curve_basis_points)) == (EXPERIMENT, [1000, 10_000])
    assert (status.active_digest, by_id["shop2"].commit) == (new.digest, new.commit)
    assert (by_id["shop2"].target_digest, by_id["shop"].commit) == (old.digest, old.commit)
    assert {name: each.ramp_basis_points for name, each in by_id.items()} == {"shop": 10_000, "shop2": 1000}
    assert status.revision > 0
    assert [(row.actor, row.rollout.detail) for row in rows] == [
        ("ada@example", "mode experiment -> experiment; ramp curve none -> 10 %, 100 %")
    ]


async def test_what_makes_no_sense_as_a_config_is_refused_and_changes_nothing() -> None:
    """A curve that falls, repeats, leaves the range or begins with everybody; no mode; another one's control arm."""
    old, new = gated("shop", enabled_via_flag=None), gated("shop2", slot="shop")
    async with an_operated_sidecar(old, unflagged_at_once=True) as bench:
        await bench.configured(old, new)
        before = await bench.status()
        curves = ([2500, 500], [500, 500], [0, 500], [500, 10_001], [10_000])
        refused = [
            await bench.refused("ConfigureRollout", mode=EXPERIMENT, curve_basis_points=curve) for curve in curves
        ]
        modeless = await bench.refused("ConfigureRollout", curve_basis_points=[500])
        endless = await bench.refused("ConfigureRollout", mode=EXPERIMENT, curve_basis_points=range(1, 102))
        others = await bench.refused("ConfigureRollout", "shop2", mode=FULL)
        same = await bench.step("ConfigureRollout", mode=EXPERIMENT)
        after = await bench.status()

    assert {each.reason for each in refused} == {"TRANSITION_REFUSED"}
    assert ["does not rise" in refused[0].message, "begins with 100 %" in refused[4].message] == [True, True]
    assert (modeless.reason, endless.reason, others.reason) == (
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "TRANSITION_REFUSED",
    )
    assert "name that one" in others.message
    assert (same.changed, after.revision) == (False, before.revision)


class Denies:
    """Denies one kind of step."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny what is declared."""
        return PolicyAnswer("not today" if facts.step is Step.CONFIGURE else "")


async def test_nobody_lets_a_control_arm_in_past_the_gate_or_the_policies() -> None:
    """A fail and an outage of the present ramp's gate leave it an experiment; the way back waits for nobody."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        bench.gates.asked.clear()
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        failed = await bench.refused("ConfigureRollout", mode=FULL)
        bench.gates.say["pre_ramp"] = None
        held = await bench.refused("ConfigureRollout", mode=FULL)
        kept = await arms(bench)
        bench.gates.say["pre_ramp"] = Verdict.PASS
        bench.policies.append(("denies", Denies()))
        denied = await bench.refused("ConfigureRollout", mode=FULL)
        bench.policies.clear()
        passed = await bench.step("ConfigureRollout", mode=FULL)
        asked = [(each.gate, each.from_ramp, each.to_ramp) for each in bench.gates.asked]
        bench.gates.say["pre_ramp"] = None
        bench.policies.append(("denies", Denies()))
        back = await bench.step("ConfigureRollout", mode=EXPERIMENT)
        again = await arms(bench)

    assert (failed.reason, held.reason, denied.reason) == ("GATE_FAILED", "GATE_HELD", "POLICY_DENIED")
    assert kept["control"] == again["control"] == []
    assert asked == [("pre_ramp", 500, 500)] * 3
    assert (gate_lines(passed), passed.changed, back.changed) == (["pre_ramp: pass: as scripted"], True, True)


async def test_the_control_arm_comes_in_only_after_the_time_of_observation() -> None:
    """The example policy, right after a raise; keeping the control arm away is possible at any time."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        bench.policies.append(("observation-time", ObservationTime({"at_least": "4h"})))
        denied = await bench.refused("ConfigureRollout", mode=FULL)
        bench.policies.clear()
        await bench.step("ConfigureRollout", mode=FULL)
        bench.policies.append(("observation-time", ObservationTime({"at_least": "4h"})))
        back = await bench.step("ConfigureRollout", mode=EXPERIMENT)

    assert (denied.reason, back.changed) == ("POLICY_DENIED", True)
    assert "the last change is watched until" in denied.message


async def test_explain_knows_the_mode_of_a_time_in_the_past() -> None:
    """The control arm was let in at one moment, and kept away again: each time is explained as it was."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        moments = [bench.clock.now()]
        for mode in (FULL, EXPERIMENT):
            bench.clock.time += timedelta(minutes=1)
            await bench.step("ConfigureRollout", mode=mode)
            moments.append(bench.clock.now())
        verdicts = []
        for at in moments:
            request = pb.ExplainServingRequest(slot="shop", principal=INSIDE, experiment_arm="control")
            request.at.FromDatetime(at)
            answer = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())
            verdicts.append(bool(answer.served_digest))

    assert verdicts == [False, True, False]


async def test_explain_tells_the_control_arm_from_a_cohort_flag_that_is_off() -> None:
    """Two reasons with one verdict: each is said in words of its own."""
    words = []
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        for arm, on in (("control", True), ("treatment", False)):
            bench.flags.on["ai_assistant_subagent_shop_cohort"] = on
            request = pb.ExplainServingRequest(slot="shop", principal=INSIDE, experiment_arm=arm)
            answer = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())
            words.append([each.explanation for each in answer.verdicts])

    assert words == [
        ["the user is in the control arm, and the rollout is an experiment"],
        ["its flag ai_assistant_subagent_shop_cohort is off: no user is exposed"],
    ]
