"""`two-persons`: a step is taken once different authenticated subjects have asked for exactly that step.

The first subject's request is denied and kept. A second subject's request for the same step passes. A subject that asks
twice counts once. Two subjects with one key also count once, because the holder of the key may have written both; an
OIDC issuer vouches for each of its subjects. A request older than `approvals_last` no longer counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar.policy.lifecycle import Approval, PolicyAnswer, StepFacts
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
        "different_keys": {
            "type": "boolean",
            "description": "Whether subjects of one operator's key count as one person; true unless said.",
        },
        "steps": {**STEPS, "description": "For what; a ramp only where it rises."},
        "approvals_last": {**DURATION_SCHEMA, "description": "How long a request counts, e.g. `24h`."},
    }
)


class TwoPersons:
    """The policy."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._needed = settings.get("subjects", 2)
        self._different_keys = settings.get("different_keys", True)
        self._steps = steps_of(settings.get("steps", list(GUARDED)))
        self._last = duration(settings.get("approvals_last", "24h"))

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny until enough subjects stand behind the step, and say who does."""
        if not concerns(facts, self._steps):
            return ALLOWED
        recent = [each for each in facts.approvals if each.subject and each.at <= facts.now < each.at + self._last]
        asked = list(dict.fromkeys(each.subject for each in recent))
        persons = self._persons(recent)
        if persons >= self._needed:
            return ALLOWED
        missing = self._needed - persons
        who = f"{missing} other person has" if missing == 1 else f"{missing} other persons have"
        alike = persons < len(asked)
        return PolicyAnswer(
            f"asked for by {', '.join(asked) or 'no subject'}{' with the same key' if alike else ''}; {who} to ask for "
            f"exactly this step, with a {'key and a ' if alike else ''}request of their own"
        )

    def _persons(self, approvals: Sequence[Approval]) -> int:
        """Return how many persons have surely asked: neither two subjects of one key are two, nor two keys of one."""
        subjects = {each.subject for each in approvals}
        if not self._different_keys:
            return len(subjects)
        return min(len(subjects), len({each.key if each.is_of_local_key else each.subject for each in approvals}))
