"""The platform's own rules pass the suite that every lifecycle policy has to."""

from collections.abc import Sequence

import pytest
from typing_extensions import override

from sidecar.policy.lifecycle import Step, StepFacts
from sidecar.policy.platform import PlatformRules
from sidecar_conformance.lifecycle_policy import LifecyclePolicyBench, LifecyclePolicySuite, changed


class PlatformBench(LifecyclePolicyBench):
    """The rules need no settings."""

    @override
    def make(self) -> PlatformRules:
        return PlatformRules()

    @override
    def allowed(self) -> Sequence[StepFacts]:
        return [changed(), changed(step=Step.PROMOTE), changed(to_ramp=10_000)]

    @override
    def denied(self) -> Sequence[StepFacts]:
        return [changed(actor=""), changed(to_ramp=10_001)]


class TestPlatform(LifecyclePolicySuite):
    """`platform`."""

    @pytest.fixture
    def bench(self) -> PlatformBench:
        """Make one."""
        return PlatformBench()
