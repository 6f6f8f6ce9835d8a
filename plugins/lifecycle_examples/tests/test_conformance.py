"""The example policies pass the suite that every lifecycle policy has to."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from typing_extensions import override

from sidecar.policy.factory import make_lifecycle_policy
from sidecar.policy.lifecycle import Approval, LifecyclePolicy, StepFacts
from sidecar_conformance.lifecycle_policy import LifecyclePolicyBench, LifecyclePolicySuite, changed
from sidecar_conformance.policy_bench import NOW
from sidecar_lifecycle_examples.plugin import sidecar_lifecycle_policies

SPECS = {spec.name: spec for spec in sidecar_lifecycle_policies()}


class ExampleBench(LifecyclePolicyBench):
    """One of them, made as the sidecar makes it."""

    def __init__(self, name: str, settings: dict[str, Any], allowed: StepFacts, denied: StepFacts) -> None:
        self._name, self._settings, self._allowed, self._denied = name, settings, allowed, denied

    @override
    def make(self) -> LifecyclePolicy:
        return make_lifecycle_policy(SPECS[self._name], self._settings)

    @override
    def allowed(self) -> Sequence[StepFacts]:
        return [self._allowed]

    @override
    def denied(self) -> Sequence[StepFacts]:
        return [self._denied]


class TestChangeFreeze(LifecyclePolicySuite):
    """`change-freeze`; noon on a Wednesday in UTC."""

    @pytest.fixture
    def bench(self) -> ExampleBench:
        """Make one."""
        window = {"days": ["wed"], "from": "13:00", "to": "24:00"}
        settings = {"timezone": "Europe/Berlin", "weekly": [window]}
        return ExampleBench("change-freeze", settings, changed(now=NOW - timedelta(hours=1)), changed())


class TestTwoPersons(LifecyclePolicySuite):
    """`two-persons`."""

    @pytest.fixture
    def bench(self) -> ExampleBench:
        """Make one."""
        second = Approval("second@example.com", NOW)
        return ExampleBench("two-persons", {}, changed(approvals=(*changed().approvals, second)), changed())


class TestLargestStep(LifecyclePolicySuite):
    """`largest-step`."""

    @pytest.fixture
    def bench(self) -> ExampleBench:
        """Make one."""
        return ExampleBench("largest-step", {"points": 20}, changed(), changed(to_ramp=2501))


class TestObservationTime(LifecyclePolicySuite):
    """`observation-time`."""

    @pytest.fixture
    def bench(self) -> ExampleBench:
        """Make one."""
        return ExampleBench("observation-time", {"at_least": "2d"}, changed(), changed(last_step_at=NOW))
