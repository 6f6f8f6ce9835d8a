"""What the policies' settings have in common: steps, durations, and what differs by vertical."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from sidecar.core.rollout.facts import RolloutMode
from sidecar.policy.lifecycle import LifecyclePolicy, PolicyAnswer, Step, StepFacts

DURATION: Final = re.compile(r"([1-9][0-9]{0,5})(m|h|d)\Z")
UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
ALLOWED: Final = PolicyAnswer()

STEPS: Final[Mapping[str, Any]] = {
    "type": "array",
    "items": {"enum": [str(step) for step in Step]},
    "uniqueItems": True,
}
DURATION_SCHEMA: Final[Mapping[str, Any]] = {"type": "string", "pattern": "^[1-9][0-9]{0,5}[mhd]$"}

PolicyT = TypeVar("PolicyT", bound=LifecyclePolicy)


def schema_of(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON schema of a policy's section: its settings, and in `verticals` what differs by vertical."""
    own = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    verticals = {"type": "object", "additionalProperties": own, "description": "What differs, by vertical."}
    return {**own, "properties": {**properties, "verticals": verticals}}


def duration(text: str) -> timedelta:
    """Return `30m`, `4h` or `2d` as a duration. Raises `ValueError`."""
    found = DURATION.match(text)
    if found is None:
        raise ValueError("a duration is whole minutes, hours or days, e.g. `30m`, `4h` or `2d`")
    return timedelta(**{UNITS[found[2]]: int(found[1])})


def raises_exposure(facts: StepFacts) -> bool:
    """Say whether a step is a ramp that rises; lowering one is never held back."""
    return facts.step is Step.SET_RAMP and facts.to_ramp > facts.from_ramp


def gives_more(facts: StepFacts) -> bool:
    """Say whether a step would give the definition to users who do not get it now.

    A ramp that rises does, and at a ramp above 0 what is activated, and a mode that lets the control arm in.
    """
    lets_control_in = (facts.from_mode, facts.to_mode) == (RolloutMode.EXPERIMENT, RolloutMode.FULL)
    brings_in = facts.step is Step.ACTIVATE or (facts.step is Step.CONFIGURE and lets_control_in)
    return raises_exposure(facts) or (brings_in and facts.from_ramp > 0)


def concerns(facts: StepFacts, steps: frozenset[Step]) -> bool:
    """Say whether a policy for these steps has anything to say; a ramp counts only if it rises."""
    return facts.step in steps and (facts.step is not Step.SET_RAMP or raises_exposure(facts))


def steps_of(names: list[str]) -> frozenset[Step]:
    """Return steps by their names."""
    return frozenset(Step(name) for name in names)


class ByVertical(Generic[PolicyT]):
    """One policy for all, and another for verticals that differ.

    Args:
        make: makes a policy from its settings.
        settings: of the section.

    Raises:
        ValueError: a setting makes no sense.
    """

    def __init__(self, make: Callable[[Mapping[str, Any]], PolicyT], settings: Mapping[str, Any]) -> None:
        shared = {name: value for name, value in settings.items() if name != "verticals"}
        self._shared = make(shared)
        self._verticals = {name: make({**shared, **own}) for name, own in settings.get("verticals", {}).items()}

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Ask the vertical's."""
        return self._verticals.get(facts.vertical, self._shared).check(facts)
