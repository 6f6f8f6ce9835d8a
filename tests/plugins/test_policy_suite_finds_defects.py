"""The lifecycle policy suite can fail: each planted defect is found, and each case finds at least one."""

import random
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from typing_extensions import override

from sidecar.policy.lifecycle import PolicyAnswer, Step, StepFacts
from sidecar_conformance.lifecycle_policy import LifecyclePolicyBench, LifecyclePolicySuite, changed
from sidecar_conformance.suite import case_names, failures_of
from tests.plugins.suites import only

NEVER: Final = threading.Event()


class Small:
    """Right: no raise of more than 25 points, and a gate more for the others."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny a large raise."""
        if facts.step is not Step.SET_RAMP or facts.to_ramp <= facts.from_ramp:
            return PolicyAnswer()
        return PolicyAnswer("too large" if facts.to_ramp - facts.from_ramp > 2500 else "", ("legal",))


class AlwaysDenies(Small):
    """Denies all raises."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny."""
        return PolicyAnswer("no") if super().check(facts).more_gates else PolicyAnswer()


class NeverDenies(Small):
    """Has no reason to give."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Allow."""
        return PolicyAnswer("", super().check(facts).more_gates)


class OddGates(Small):
    """Names a gate that is none."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Ask for it."""
        answer = super().check(facts)
        return PolicyAnswer(answer.denied, ("Legal Department",) if answer.more_gates else ())


class Remembers(Small):
    """Asks for a gate only the first time."""

    def __init__(self) -> None:
        self._asked = 0

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Count."""
        self._asked += 1
        answer = super().check(facts)
        return answer if self._asked % 2 else PolicyAnswer(answer.denied)


class ReadsClock(Small):
    """Looks at the wall clock."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Read it."""
        return super().check(facts) if time.time() else PolicyAnswer()


class ReadsCalendar(Small):
    """The same, by another name."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Read it."""
        return super().check(facts) if datetime.now(UTC).year else PolicyAnswer()


class DrawsLots(Small):
    """Lets chance decide."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Draw."""
        return super().check(facts) if random.random() >= 0 else PolicyAnswer()


class ReadsFile(Small):
    """Looks into a file."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Read it."""
        return super().check(facts) if Path(__file__).read_bytes() else PolicyAnswer()


class NeedsHistory(Small):
    """Stumbles over a definition that never stepped."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Take it for granted."""
        if facts.last_step_at is None:
            raise TypeError("no last step")
        return super().check(facts)


class HoldsLowering(Small):
    """Asks for a gate whatever the direction."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Look at the size only."""
        answer = super().check(facts)
        return answer if facts.to_ramp > facts.from_ramp else PolicyAnswer("not now")


class Hangs(Small):
    """Waits for something when many have asked."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Wait."""
        if len(facts.approvals) > 100:
            NEVER.wait(3)
        return super().check(facts)


class Bench(LifecyclePolicyBench):
    """One policy."""

    def __init__(self, policy: type[Small] = Small) -> None:
        self._policy = policy

    @override
    def make(self) -> Any:
        return self._policy()

    @override
    def allowed(self) -> Sequence[StepFacts]:
        return [changed(), changed(to_ramp=600)]

    @override
    def denied(self) -> Sequence[StepFacts]:
        return [changed(to_ramp=9000)]


DEFECTS: dict[type[Small], set[str]] = {
    AlwaysDenies: {"test_it_allows_what_it_is_known_to_allow"},
    NeverDenies: {"test_it_denies_what_it_is_known_to_deny_and_says_why"},
    OddGates: {"test_an_answer_has_the_contracts_types"},
    Remembers: {"test_the_same_facts_get_the_same_answer"},
    ReadsClock: {"test_it_reads_nothing_but_its_facts"},
    ReadsCalendar: {"test_it_reads_nothing_but_its_facts"},
    DrawsLots: {"test_it_reads_nothing_but_its_facts"},
    ReadsFile: {"test_it_reads_nothing_but_its_facts"},
    NeedsHistory: {"test_it_answers_for_every_kind_of_step"},
    HoldsLowering: {"test_it_holds_no_ramp_back_that_is_lowered"},
    Hangs: {"test_it_answers_at_once"},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: type[Small]) -> None:
    """By the case made for it; others may see it too."""
    suite = only(LifecyclePolicySuite, DEFECTS[defect], jumping=False)

    assert set(failures_of(suite, lambda: Bench(defect))) == DEFECTS[defect]


def test_every_case_has_a_defect_that_it_is_there_to_find() -> None:
    """A case without one might never fail."""
    assert set().union(*DEFECTS.values()) == case_names(LifecyclePolicySuite)


def test_a_right_policy_has_no_failures() -> None:
    """Else the defects above prove nothing."""
    assert failures_of(LifecyclePolicySuite, Bench) == {}
