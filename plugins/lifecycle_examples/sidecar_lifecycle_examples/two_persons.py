"""`two-persons`: allows a step when different authenticated subjects have requested exactly this step.

The first subject's request is denied and kept. A second subject's request for the same step passes. A subject with two
requests counts once. Two subjects with one key also count once, because the holder of the key may have written both; an
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
    """The policy `two-persons`; the defaults are 2 subjects and requests that count for 24 hours."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._needed = settings.get("subjects", 2)
        self._different_keys = settings.get("different_keys", True)
        self._steps = steps_of(settings.get("steps", list(GUARDED)))
        self._lifetime = duration(settings.get("approvals_last", "24h"))

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny a step until enough subjects have requested it. The reason lists the subjects so far."""
        if not concerns(facts, self._steps):
            return ALLOWED
        recent = [each for each in facts.approvals if each.subject and each.at <= facts.now < each.at + self._lifetime]
        names = list(dict.fromkeys(each.subject for each in recent))
        persons = self._persons(recent)
        if persons >= self._needed:
            return ALLOWED
        missing = self._needed - persons
        who = f"{missing} other person has" if missing == 1 else f"{missing} other persons have"
        alike = persons < len(names)
        return PolicyAnswer(
            f"asked for by {', '.join(names) or 'no subject'}{' with the same key' if alike else ''}; {who} to ask for "
            f"exactly this step, with a {'key and a ' if alike else ''}request of their own"
        )

    def _persons(self, approvals: Sequence[Approval]) -> int:
        """Return how many different persons have certainly made requests.

        Two subjects with one local key count once, and so do two keys of one subject.
        """
        subjects = {each.subject for each in approvals}
        if not self._different_keys:
            return len(subjects)
        return min(len(subjects), len({each.key if each.is_of_local_key else each.subject for each in approvals}))
