"""The lifecycle policy `platform`: the platform's own rules, called before all others, independent of the settings.

`sidecar.core.rollout.transitions` applies the rules of the rollout first. This policy repeats the two rules that no
plugin and no setting may remove: a person requested the step, and its gates passed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.transitions import PRE_FULL, PRE_MERGE, PRE_RAMP
from sidecar.policy.lifecycle import PolicyAnswer, Step, StepFacts
from sidecar.policy.specs import LifecyclePolicySpec

PLATFORM: Final = "platform"


class PlatformRules:
    """Denies steps without an actor or with an invalid ramp, and requires the mandatory gates."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Return the answer. Source: PF1-D-6, PF1-D-8, PF1-D-9, TN-73."""
        denied = ""
        if not facts.actor:
            denied = "the step has no actor; only an authenticated subject may take a step"
        elif not 0 <= facts.to_ramp <= WHOLE:
            denied = f"a ramp is 0 to {WHOLE} basis points"
        return PolicyAnswer(denied, _gates_of(facts))


def _gates_of(facts: StepFacts) -> tuple[str, ...]:
    if facts.step is Step.PROMOTE:
        return (PRE_MERGE,)
    # A lower ramp needs no gate: it withdraws the definition from users, which must work without a gate service.
    if facts.step is Step.SET_RAMP and facts.to_ramp > facts.from_ramp:
        return (PRE_FULL if facts.to_ramp == WHOLE else PRE_RAMP,)
    return ()


def _make(_settings: Mapping[str, Any]) -> PlatformRules:
    return PlatformRules()


PLATFORM_POLICY: Final = LifecyclePolicySpec(
    name=PLATFORM,
    contract="lifecycle-policy/1",
    summary="the platform's own rules; always there, and asked first",
    factory=_make,
)


def sidecar_lifecycle_policies() -> Sequence[LifecyclePolicySpec]:
    """Offer `platform`."""
    return [PLATFORM_POLICY]
