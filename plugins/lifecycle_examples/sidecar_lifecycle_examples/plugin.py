"""Registers the example policies and the example audit sink."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.lifecycle import LifecyclePolicy
from sidecar.policy.specs import AuditSinkSpec, LifecyclePolicySpec
from sidecar_lifecycle_examples import change_freeze, jsonl_sink, largest_step, observation_time, two_persons
from sidecar_lifecycle_examples.settings import ByVertical, PolicyT


@hookimpl
def sidecar_lifecycle_policies() -> Sequence[LifecyclePolicySpec]:
    """Offer the four example policies."""
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


@hookimpl
def sidecar_audit_sinks() -> Sequence[AuditSinkSpec]:
    """Offer `jsonl`."""
    return [
        AuditSinkSpec(
            name="jsonl",
            contract="audit-sink/1",
            summary="each audit event as one line of a file, on disk before it counts as taken",
            config_schema=jsonl_sink.SCHEMA,
            factory=jsonl_sink.made,
        )
    ]


def _spec(
    name: str, summary: str, schema: Mapping[str, Any], make: Callable[[Mapping[str, Any]], PolicyT]
) -> LifecyclePolicySpec:
    def factory(settings: Mapping[str, Any]) -> LifecyclePolicy:
        return ByVertical(make, settings)

    return LifecyclePolicySpec(
        name=name, contract="lifecycle-policy/1", summary=summary, config_schema=schema, factory=factory
    )
