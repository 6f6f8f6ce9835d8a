"""`two-persons`: a step is taken once different authenticated subjects have asked for exactly that step.

The first one's request is denied and kept; the second one's, a request of their own, passes. Whoever asks twice is
still one. What was asked for longer ago than `approvals_last` counts no more.
"""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.policy.lifecycle import PolicyAnswer, StepFacts
from sidecar_lifecycle_examples.settings import (
    ALLOWED,
    DURATION_SCHEMA,
    STEPS,
    concerns,
    duration,
    schema_of,
    steps_of,
)

GUARDED: Final = ("promote", "set_ramp", "configure", "override_gate", "activate")

SCHEMA: Final = schema_of(
    {
        "subjects": {"type": "integer", "minimum": 2, "maximum": 5, "description": "How many have to ask."},
        "steps": {**STEPS, "description": "For what; a ramp only where it rises."},
        "approvals_last": {**DURATION_SCHEMA, "description": "How long a request counts, e.g. `24h`."},
    }
)


class TwoPersons:
    """The policy."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._needed = settings.get("subjects", 2)
        self._steps = steps_of(settings.get("steps", list(GUARDED)))
        self._last = duration(settings.get("approvals_last", "24h"))

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny until enough subjects stand behind the step, and say who does."""
        if not concerns(facts, self._steps):
            return ALLOWED
        recent = [each.subject for each in facts.approvals if each.at <= facts.now < each.at + self._last]
        asked = list(dict.fromkeys(name for name in recent if name))
        if len(asked) >= self._needed:
            return ALLOWED
        missing = self._needed - len(asked)
        who = f"{missing} other person has" if missing == 1 else f"{missing} other persons have"
        return PolicyAnswer(
            f"asked for by {', '.join(asked) or 'nobody'}; {who} to ask for exactly this step, "
            "with a request of their own"
        )
