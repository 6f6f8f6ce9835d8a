"""`largest-step`: a ramp does not rise by more than so many percentage points at once."""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.policy.lifecycle import PolicyAnswer, StepFacts
from sidecar_lifecycle_examples.settings import ALLOWED, raises_exposure, schema_of

BASIS_POINTS: Final = 100
"""Of a percentage point."""

SCHEMA: Final = schema_of(
    {"points": {"type": "number", "minimum": 0.01, "maximum": 100, "description": "Percentage points of one step."}}
)


class LargestStep:
    """The policy."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._most = round(settings.get("points", 25) * BASIS_POINTS)

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny a larger step, and say how far one may go."""
        if not raises_exposure(facts) or facts.to_ramp - facts.from_ramp <= self._most:
            return ALLOWED
        points, furthest = self._most / BASIS_POINTS, (facts.from_ramp + self._most) / BASIS_POINTS
        return PolicyAnswer(f"a step is at most {points:g} percentage points; from here up to {furthest:g} %")
