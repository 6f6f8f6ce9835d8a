"""`sidecar gate ask --simulate` says what a real step asks, and what a real answer does."""

from typing import Final

import msgspec
import pytest

from sidecar.operations.rollout.steps.gate_simulation import AnswerEffect, effects_on, gates_between, question_about
from sidecar.policy.lifecycle import GateQuestion, Verdict
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.operators import OperatedSidecar, an_operated_sidecar

STEPS: Final = [(0, None), (0, 500), (500, 5000), (5000, 10_000)]
"""Ramp before and after; without one after it, the promotion."""


def simulated(bench: OperatedSidecar) -> list[GateQuestion]:
    """Return the simulated questions of a whole rollout."""
    card = bench.sidecar.definitions.current_card("shop")
    return [
        question_about(card, gate, before, before if to is None else to)
        for before, to in STEPS
        for gate in gates_between(card, before, to)
    ]


async def effect_of(bench: OperatedSidecar, answer: str) -> AnswerEffect:
    """Return the simulated effect of one answer of `pre_merge`."""
    card = bench.sidecar.definitions.current_card("shop")
    effects = await effects_on(question_about(card, "pre_merge", 0, 0), card, bench.clock)
    return next(each for each in effects if each.answer == answer)


async def test_the_simulated_questions_are_those_of_the_real_steps() -> None:
    """From the promotion to all users; only who asks, and under which id, is an example."""
    async with an_operated_sidecar() as bench:
        expected = simulated(bench)
        await bench.promoted()
        for ramp in (500, 5000, 10_000):
            await bench.step("SetRamp", ramp_basis_points=ramp)

    asked = [
        msgspec.structs.replace(each, requested_by=expected[0].requested_by, question_id=expected[0].question_id)
        for each in bench.gates.asked
    ]
    assert asked == expected


@pytest.mark.parametrize("verdict", [*Verdict, None])
async def test_the_simulated_effect_is_that_of_the_real_answer(verdict: Verdict | None) -> None:
    """Each verdict, and none: whether the step is taken, why not, and whether the gate counts as failed."""
    async with an_operated_sidecar() as bench:
        bench.gates.say["pre_merge"] = verdict
        await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_TEST)
        expected = await effect_of(bench, "unavailable" if verdict is None else verdict.value)
        reason = ""
        if expected.step == "taken":
            await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_PROMOTE)
        else:
            reason = (await bench.refused("Transition", target_state=pb.LIFECYCLE_STATE_PROMOTE)).reason

    assert reason == expected.reason
    assert expected.counted == (verdict is Verdict.FAIL)
    assert expected.anomaly == ("gate_unavailable" if verdict is None else "")
