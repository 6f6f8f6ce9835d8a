"""`largest-step`: limits by how many percentage points one step may raise a ramp."""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.policy.lifecycle import PolicyAnswer, StepFacts
from sidecar_lifecycle_examples.settings import ALLOWED, raises_exposure, schema_of

BASIS_POINTS: Final = 100
"""Basis points in a percentage point."""

SCHEMA: Final = schema_of(
    {"points": {"type": "number", "minimum": 0.01, "maximum": 100, "description": "Percentage points of one step."}}
)


class LargestStep:
    """The policy `largest-step`; without the setting `points`, the limit is 25."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._most = round(settings.get("points", 25) * BASIS_POINTS)

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny a larger step, with the highest ramp that is allowed."""
        if not raises_exposure(facts) or facts.to_ramp - facts.from_ramp <= self._most:
            return ALLOWED
        points, furthest = self._most / BASIS_POINTS, (facts.from_ramp + self._most) / BASIS_POINTS
        return PolicyAnswer(f"a step is at most {points:g} percentage points; from here up to {furthest:g} %")
