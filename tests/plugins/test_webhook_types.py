"""The types of webhooks are made of what every sink writes, and each event of the sidecar has one."""

from msgspec.structs import replace

from sidecar.core.rollout.events import DecommissionMark, RolloutEvent, TransitionEvent
from sidecar.observability import event_names
from sidecar.observability.audit.sinks import written
from sidecar.policy.audit import AuditEntry
from sidecar_audit_webhook.events import DECOMMISSION, ROLLOUT, TRANSITION, TYPES, type_of
from sidecar_conformance.audit_sink import a_transition, an_event


def test_each_event_of_the_sidecar_has_a_type_that_can_be_chosen() -> None:
    """The names are those that all sinks write."""
    assert (event_names.LIFECYCLE_TRANSITION, event_names.DECOMMISSION_STEP, event_names.ROLLOUT_EVENT) == (
        TRANSITION,
        DECOMMISSION,
        ROLLOUT,
    )
    transition, event = a_transition(1).body, an_event(1).body
    assert isinstance(transition, TransitionEvent)
    assert isinstance(event, RolloutEvent)
    mark = DecommissionMark(
        step="evals_and_tools",
        trigger=transition.trigger,
        agent_definition_commit=transition.agent_definition_commit,
        cohort=transition.cohort,
    )
    bodies = (transition, event, replace(event, decommission=mark))
    found = [type_of(written(AuditEntry("id", 1, body, None)).fields) for body in bodies]
    assert found == [f"{TRANSITION}.rollback", f"{ROLLOUT}.ramp_set", f"{DECOMMISSION}.evals_and_tools"]
    assert set(found) <= TYPES
