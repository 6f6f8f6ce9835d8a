"""Registers the example policies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.lifecycle import LifecyclePolicy
from sidecar.policy.specs import LifecyclePolicySpec
from sidecar_lifecycle_examples import change_freeze, largest_step, observation_time, two_persons
from sidecar_lifecycle_examples.settings import ByVertical, PolicyT


@hookimpl
def sidecar_lifecycle_policies() -> Sequence[LifecyclePolicySpec]:
    """Offer all four."""
    return [
        _spec(
            "change-freeze", "no step towards users inside a window", change_freeze.SCHEMA, change_freeze.ChangeFreeze
        ),
        _spec("two-persons", "different subjects ask for the same step", two_persons.SCHEMA, two_persons.TwoPersons),
        _spec("largest-step", "a ramp rises in small steps only", largest_step.SCHEMA, largest_step.LargestStep),
        _spec(
            "observation-time",
            "what users got is watched before they get more",
            observation_time.SCHEMA,
            observation_time.ObservationTime,
        ),
    ]


def _spec(
    name: str, summary: str, schema: Mapping[str, Any], make: Callable[[Mapping[str, Any]], PolicyT]
) -> LifecyclePolicySpec:
    def factory(settings: Mapping[str, Any]) -> LifecyclePolicy:
        return ByVertical(make, settings)

    return LifecyclePolicySpec(
        name=name, contract="lifecycle-policy/1", summary=summary, config_schema=schema, factory=factory
    )
