"""`observation-time`: requires a time between two steps that give a definition to more users."""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.policy.lifecycle import PolicyAnswer, StepFacts
from sidecar_lifecycle_examples.settings import ALLOWED, DURATION_SCHEMA, duration, gives_more, schema_of

SCHEMA: Final = schema_of(
    {"at_least": {**DURATION_SCHEMA, "description": "Shortest time between two steps that give users more, e.g. `4h`."}}
)


class ObservationTime:
    """The policy `observation-time`; without the setting `at_least`, the time is 4 hours."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._at_least = duration(settings.get("at_least", "4h"))

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny a step to more users that is too early. The first step and steps to fewer users are always allowed."""
        if not gives_more(facts) or facts.last_step_at is None:
            return ALLOWED
        earliest = facts.last_step_at + self._at_least
        if facts.now >= earliest:
            return ALLOWED
        return PolicyAnswer(f"the last change is watched until {earliest:%Y-%m-%d %H:%M:%S %Z}")
