"""`sidecar gate ask --simulate` says what a real step asks, and what a real answer does."""

from typing import Final

import msgspec
import pytest

from sidecar.core.rollout.bucketing import WHOLE
from sidecar.operations.rollout.steps.gate_simulation import AnswerEffect, answers_of_policies, effects_on, questions_of
from sidecar.policy.lifecycle import GateQuestion, PolicyAnswer, StepFacts, Verdict
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.operators import OperatedSidecar, an_operated_sidecar

STEPS: Final = [(0, None), (0, 500), (500, 5000), (5000, 10_000)]
"""Ramp before and after; without one after it, the promotion."""


async def simulated(bench: OperatedSidecar, before: int, to: int | None) -> tuple[GateQuestion, ...]:
    """Return the simulated questions of a step."""
    card = bench.sidecar.definitions.current_card("shop")
    answers = await answers_of_policies(bench.policies, card, before, to, bench.clock.now())
    return questions_of(card, before, to, answers)


async def effect_of(bench: OperatedSidecar, answer: str) -> AnswerEffect:
    """Return the simulated effect of one answer of `pre_merge`."""
    (question,) = await simulated(bench, 0, None)
    effects = await effects_on(question, bench.sidecar.definitions.current_card("shop"), bench.clock)
    return next(each for each in effects if each.answer == answer)


class SecurityReview:
    """A policy with a gate of its own for the step to all users."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Add the gate."""
        return PolicyAnswer("", ("security_review",) if facts.to_ramp == WHOLE else ())


async def test_the_simulated_questions_are_those_of_the_real_steps() -> None:
    """From the promotion to all users, a policy's gate included; only who asks, and under which id, is an example."""
    async with an_operated_sidecar() as bench:
        bench.policies.append(("reviewed", SecurityReview()))
        expected = [each for step in STEPS for each in await simulated(bench, *step)]
        await bench.promoted()
        for ramp in (500, 5000, 10_000):
            await bench.step("SetRamp", ramp_basis_points=ramp)

    asked = [
        msgspec.structs.replace(each, requested_by=expected[0].requested_by, question_id=expected[0].question_id)
        for each in bench.gates.asked
    ]
    assert asked == expected
    assert [each.gate for each in asked][-2:] == ["pre_full", "security_review"]


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
