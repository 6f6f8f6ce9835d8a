"""Every name of a metric of rollouts, as in PF1 where it defines one; the rules of `names` apply."""

from typing import Final

LIFECYCLE_TRANSITIONS: Final = "subagent.lifecycle.transition_total"
"""Transitions that took effect, each once over all replicas. Counter; subagent_id, source_state, target_state, trigger.
Source: PF1-OBS-1."""

GATES_FAILED: Final = "subagent.lifecycle.gate_failed_total"
"""Gates that said no; outages are none. Counter; subagent_id, milestone. Source: PF1-OBS-2, TN-78."""

KILL_SWITCHES_FIRED: Final = "subagent.lifecycle.kill_switch_fired_total"
"""Kills that were put on record, by a flag or an operator. Counter; subagent_id. Any is an alert. Source: PF1-OBS-3."""

ROLLBACK_SECONDS: Final = "subagent.lifecycle.rollback_duration_seconds"
"""From the request to the first bind that shows it. Histogram up to the budget of 5 minutes and beyond; subagent_id.
Source: PF1-OBS-4."""

CLEANUP_PENDING: Final = "subagent.lifecycle.decommission_cleanup_pending_total"
"""Sub-agents whose decommissioning has begun and not ended. Gauge, whatever its name says. Source: PF1-OBS-5."""

STOPS_PENDING: Final = "sidecar.rollout.stops_pending"
"""Kills and ramp-downs that hold in this process and are not on record yet. Gauge; alert if it lasts."""

AUDIT_WAITING: Final = "sidecar.audit.waiting_seconds"
"""Age of the oldest audit event that is still to be handed to a sink; 0: there is none. Gauge; alert if it lasts."""

AUDIT_EXPORTED: Final = "sidecar.audit.exported_total"
"""Audit events that were handed to a sink. Counter; sink."""

AUDIT_REMOVED: Final = "sidecar.audit.removed_total"
"""Audit rows that retention removed, under a signed marker each time. Counter. Source: PF1-NFR-3."""

COHORTS: Final = "sidecar.rollout.cohorts"
"""Distinct cohorts of turns bound in the current window. Gauge. Source: PF1-D-65, TN-83."""

COHORTS_BOUND: Final = "sidecar.rollout.cohorts_bound"
"""Beyond how many of them there is a warning: `rollout.max_cohorts`. Gauge."""

DRIFT: Final = "sidecar.rollout.drift"
"""How often configuration, flags and rollout contradict each other now. Gauge; subagent_id. Source: TN-71."""

ROLLOUT_DEFINITION: Final = "sidecar.rollout.definition_info"
"""1, with what other series are joined with by `subagent_id`, panels of one vertical above all. Gauge; subagent_id,
slot, vertical, state, active (`yes`, `no`). Source: PF1-D-51."""

RAMP: Final = "sidecar.rollout.ramp"
"""Own ramp of a definition in `promote`, 0 to 1, also while it is not active. Gauge; subagent_id."""

PINNED_TURNS: Final = "sidecar.rollout.pinned_turns"
"""Turns that are open in this process and hold the definition. Gauge; subagent_id. Source: PF1-FR-8."""

CLEANUP_OVERDUE: Final = "sidecar.rollout.decommission_overdue"
"""Sub-agents whose decommissioning has outlived its window and has not ended. Gauge. Source: PF1-NFR-5a."""

FLAGS_AGE: Final = "sidecar.flags.age_seconds"
"""Time since the last confirmed contact with a flag backend; a billion: there was none. Gauge; backend. Source:
PF1-T-19."""
