"""Converts the routing decision of a turn (candidates, calls, outcomes) to fields of one log line.

Source: PC2-FR-15, REQUIREMENTS 6.8, DESIGN section 11.
"""

from typing import Any

from sidecar.core.dispatching.money import in_usd
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.identifiers import TOOL_PREFIX


def routing_fields(record: RoutingRecord) -> dict[str, Any]:
    """Return all fields of the record. None of them contains text of a user or a sub-agent."""
    cohort, called = record.cohort, record.called
    return {
        "turn_id": record.turn_id,
        "episode_id": record.episode_id,
        "orchestrator_id": record.orchestrator_id,
        "candidates": [
            {"slot": each.slot, "definition_id": each.definition_id, "verdict": str(each.verdict)}
            for each in record.candidates
        ],
        # The slots that the model called; their number also counts as the number of intents.
        "invoked": list(called),
        "intent_count": len(called),
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
        "cap": str(record.cap),
        "calls": _calls(record),
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


def _calls(record: RoutingRecord) -> list[dict[str, Any]]:
    """Return the fields of each call, in the order in which the model emitted the calls."""
    return [
        {
            "dispatch_id": each.dispatch_id,
            "call_id": each.call_id,
            "sub_agent_id": each.sub_agent_id,
            # None for a call of a tool that the surface does not have: the name is text of the model.
            "tool_name": None if each.sub_agent_id is None else TOOL_PREFIX + each.sub_agent_id,
            "child_id": each.child_id,
            "emission_index": each.emission_index,
            "outcome": str(each.outcome),
            "reason": None if each.reason is None else each.reason.name,
            "axis": int(each.axis),
            "started_at": None if each.started_at is None else each.started_at.isoformat(),
            "settled_at": each.settled_at.isoformat(),
            "attempts": each.attempts,
            "status_events": each.status_events,
            # Only calls that used tokens have an arm: costs are compared between arms, and other calls cost nothing.
            "arm": None if each.usage is None else record.arm_of(each.sub_agent_id),
            "input_tokens": None if each.usage is None else each.usage.input_tokens,
            "output_tokens": None if each.usage is None else each.usage.output_tokens,
            "cost_usd": None if each.usage is None or each.usage.cost is None else in_usd(each.usage.cost),
        }
        for each in record.calls
    ]
