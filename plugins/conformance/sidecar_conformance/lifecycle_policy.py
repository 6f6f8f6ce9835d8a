"""Cases for lifecycle policies, contract `lifecycle-policy/1`.

The sidecar itself ensures that a policy can only deny a step or require gates. These cases check that a policy decides
from its facts alone, immediately, and for every kind of step.
"""
# ruff: noqa: S101  the cases are tests

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from sidecar.policy.lifecycle import LifecyclePolicy, PolicyAnswer, Step, StepFacts
from sidecar_conformance.policy_bench import LifecyclePolicyBench, changed, every_kind_of_step, impure_calls
from sidecar_conformance.suite import Suite, case

BUDGET: Final = 1.0
"""Maximum seconds for which the sidecar waits for a policy."""
GATE: Final = re.compile(r"[a-z][a-z0-9_-]{0,59}\Z")
LONGEST: Final = 300
ANYBODY: Final = "somebody@example.com"


class LifecyclePolicySuite(Suite):
    """Subclass it with a fixture `bench` that returns a `LifecyclePolicyBench`."""

    @case()
    async def test_it_allows_what_it_is_known_to_allow(self, bench: LifecyclePolicyBench) -> None:
        """A policy that always denies is broken, too."""
        allowed = bench.allowed()
        assert allowed, "a bench names at least one step that is allowed"
        assert [checked(bench.make(), facts).denied for facts in allowed] == [""] * len(allowed)

    @case()
    async def test_it_denies_what_it_is_known_to_deny_and_says_why(self, bench: LifecyclePolicyBench) -> None:
        """The reason is one line of at most 300 characters that an operator can act on."""
        for facts in bench.denied():
            reason = checked(bench.make(), facts).denied
            assert reason.strip(), f"allowed: {facts}"
            assert len(reason) <= LONGEST and "\n" not in reason  # noqa: PT018  one line means both

    @case()
    async def test_an_answer_has_the_contracts_types(self, bench: LifecyclePolicyBench) -> None:
        """The answer has a reason as text and a tuple of valid gate names."""
        for facts in steps(bench):
            answer = checked(bench.make(), facts)
            assert isinstance(answer.denied, str)
            assert isinstance(answer.more_gates, tuple)
            assert all(GATE.match(gate) for gate in answer.more_gates)

    @case()
    async def test_the_same_facts_get_the_same_answer(self, bench: LifecyclePolicyBench) -> None:
        """A policy has no memory: the order of questions does not matter, and another object answers equally."""
        one, other = bench.make(), bench.make()
        first = [(facts, checked(one, facts)) for facts in steps(bench)]
        assert [(facts, checked(one, facts)) for facts, _ in reversed(first)] == list(reversed(first))
        assert [(facts, checked(other, facts)) for facts, _ in first] == first

    @case()
    async def test_it_reads_nothing_but_its_facts(self, bench: LifecyclePolicyBench) -> None:
        """A policy uses no clock, random numbers, files or connections."""
        policy = bench.make()
        for facts in steps(bench):
            with impure_calls() as found:
                policy.check(facts)
            assert found == []

    @case()
    async def test_it_answers_for_every_kind_of_step(self, bench: LifecyclePolicyBench) -> None:
        """A policy must allow steps without a rule, and must not raise, because an exception denies the step."""
        policy = bench.make()
        for facts in every_kind_of_step():
            assert isinstance(checked(policy, facts), PolicyAnswer)

    @case()
    async def test_it_holds_no_ramp_back_that_is_lowered(self, bench: LifecyclePolicyBench) -> None:
        """A step in the safe direction is never denied."""
        policy = bench.make()
        for facts in steps(bench):
            lower = msgspec.structs.replace(facts, step=Step.SET_RAMP, from_ramp=2500, to_ramp=500, actor=ANYBODY)
            assert checked(policy, lower) == PolicyAnswer()

    @case()
    async def test_it_answers_at_once(self, bench: LifecyclePolicyBench) -> None:
        """It also answers within a second for 200 approvals; the sidecar treats a late answer as a denial."""
        policy = bench.make()
        who = tuple(msgspec.structs.replace(changed().approvals[0], subject=f"subject-{n}") for n in range(200))
        for facts in (*steps(bench), changed(approvals=who)):
            await within_budget(lambda facts=facts: policy.check(facts))  # type: ignore[misc]  # bound at once


def checked(policy: LifecyclePolicy, facts: StepFacts) -> PolicyAnswer:
    """Return the policy's answer."""
    return policy.check(facts)


def steps(bench: LifecyclePolicyBench) -> list[StepFacts]:
    """Return all steps of a bench: first the allowed, then the denied ones."""
    return [*bench.allowed(), *bench.denied()]


async def within_budget(work: Callable[[], object]) -> None:
    """Run `work` in a thread; fail unless it returns within `BUDGET` seconds."""
    back, loop = asyncio.Event(), asyncio.get_running_loop()

    def run() -> None:
        try:
            work()
        finally:
            with suppress(RuntimeError):  # the loop has ended, so no caller waits
                loop.call_soon_threadsafe(back.set)

    threading.Thread(target=run, daemon=True).start()
    try:
        await asyncio.wait_for(back.wait(), BUDGET)
    except TimeoutError:
        raise AssertionError(f"it has not answered within {BUDGET:g} s") from None


__all__ = ["LifecyclePolicyBench", "LifecyclePolicySuite", "changed"]
