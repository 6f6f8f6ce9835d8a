"""The routing decision as a flat object for the log. Source: PC2-FR-15, REQUIREMENTS 6.8, DESIGN section 11."""

from typing import Any

from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.identifiers import tool_name_of


def routing_fields(record: RoutingRecord) -> dict[str, Any]:
    """Return everything of the record; it holds nothing that a user or a sub-agent wrote."""
    cohort = record.cohort
    return {
        "turn_id": record.turn_id,
        "episode_id": record.episode_id,
        "orchestrator_id": record.orchestrator_id,
        "candidates": [
            {"slot": each.slot, "definition_id": each.definition_id, "verdict": each.verdict.value}
            for each in record.candidates
        ],
        "invoked": list(record.called),
        "intent_count": record.intent_count,
        "intents": [
            {
                "declared": each.declared,
                "emitted": each.emitted,
                "switched": each.switched,
                "prior_context_missing": each.prior_context_missing,
                "failsafe": each.failsafe,
            }
            for each in record.intents
        ],
        "fan_out_cap": record.fan_out_cap,
        "cap": record.cap.value,
        "calls": [_call(each) for each in record.calls],
        "cohort": {
            "agent_definition_version": cohort.agent_definition_version,
            "prompt_block_registry_version": cohort.prompt_block_registry_version,
            "xml_prompt_component_registry_version": cohort.xml_prompt_component_registry_version,
            "active_feature_flags": list(cohort.active_feature_flags),
            "experiment_arm_assignment": cohort.experiment_arm_assignment,
            "active_sub_agents": list(cohort.active_sub_agents),
        },
        "binding_digest": record.binding_digest,
        "bound_at": record.bound_at.isoformat(),
        "ended_at": record.ended_at.isoformat(),
        "close_reason": record.close_reason,
        "overhead_seconds": record.overhead.total_seconds(),
        "principal_asserted_by": record.principal_asserted_by,
        "gate_passed": record.gate_passed,
    }


def _call(call: RoutedCall) -> dict[str, Any]:
    return {
        "dispatch_id": call.dispatch_id,
        "call_id": call.call_id,
        "sub_agent_id": call.sub_agent_id,
        "tool_name": None if call.sub_agent_id is None else tool_name_of(call.sub_agent_id),
        "child_id": call.child_id,
        "emission_index": call.emission_index,
        "outcome": call.outcome.value,
        "reason": None if call.reason is None else call.reason.name,
        "axis": int(call.axis),
        "started_at": None if call.started_at is None else call.started_at.isoformat(),
        "settled_at": call.settled_at.isoformat(),
        "attempts": call.attempts,
        "status_events": call.status_events,
    }
