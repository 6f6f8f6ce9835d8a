"""Common parts of the policies' settings: steps, durations, and settings by vertical."""

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
    """Return the JSON schema of a policy's section: its settings, and in `verticals` other values by vertical."""
    own = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    verticals = {"type": "object", "additionalProperties": own, "description": "What differs, by vertical."}
    return {**own, "properties": {**properties, "verticals": verticals}}


def duration(text: str) -> timedelta:
    """Return a duration from a text such as `30m`, `4h` or `2d`. Raises `ValueError` for any other text."""
    found = DURATION.match(text)
    if found is None:
        raise ValueError("a duration is whole minutes, hours or days, e.g. `30m`, `4h` or `2d`")
    return timedelta(**{UNITS[found[2]]: int(found[1])})


def raises_exposure(facts: StepFacts) -> bool:
    """Return whether a step raises a ramp. The policies never deny a step that lowers it."""
    return facts.step is Step.SET_RAMP and facts.to_ramp > facts.from_ramp


def gives_more(facts: StepFacts) -> bool:
    """Return whether a step would give the definition to users who do not get it now.

    Such steps raise the ramp; or, at a ramp above 0, activate the definition or change the mode from experiment to
    full, which adds the users of the control arm.
    """
    lets_control_in = (facts.from_mode, facts.to_mode) == (RolloutMode.EXPERIMENT, RolloutMode.FULL)
    activates = facts.step is Step.ACTIVATE or (facts.step is Step.CONFIGURE and lets_control_in)
    return raises_exposure(facts) or (activates and facts.from_ramp > 0)


def concerns(facts: StepFacts, steps: frozenset[Step]) -> bool:
    """Return whether a policy for `steps` applies to a step; `set_ramp` counts only if it raises the ramp."""
    return facts.step in steps and (facts.step is not Step.SET_RAMP or raises_exposure(facts))


def steps_of(names: list[str]) -> frozenset[Step]:
    """Return the steps with these names."""
    return frozenset(Step(name) for name in names)


class ByVertical(Generic[PolicyT]):
    """A policy that has separate settings for some verticals.

    Args:
        make: creates a policy from its settings.
        settings: settings of the section; `verticals` has the values that differ, by vertical.

    Raises:
        ValueError: a setting cannot be used.
    """

    def __init__(self, make: Callable[[Mapping[str, Any]], PolicyT], settings: Mapping[str, Any]) -> None:
        shared = {name: value for name, value in settings.items() if name != "verticals"}
        self._shared = make(shared)
        self._verticals = {name: make({**shared, **own}) for name, own in settings.get("verticals", {}).items()}

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Return the answer of the policy with the settings of the slot's vertical."""
        return self._verticals.get(facts.vertical, self._shared).check(facts)
