"""Names of metrics, with the text of `docs/metrics.md` (`python -m scripts.document_metrics`).

A docstring has the meaning as Markdown, the type, the labels, and the source, which the page leaves out. `call_names`
has those of RPCs and calls, `event_names` the log events, `span_names` the spans.

Metric names follow OpenTelemetry; a Prometheus server that does not request UTF-8 names gets underscores for dots. No
label holds a user, an episode or a turn, so the number of series stays small. A name ends with its unit, if any.
"""

from typing import Final

# --- metrics: envelopes -----------------------------------------------------------------------------------------------

PRINCIPAL_MISMATCH: Final = "ps6.envelope.principal_mismatch_total"
"""Responses that name another principal than the user of the turn, or none; they were withheld. **Alert on any.**
The label is always `consumer-agent`. Counter; consumer. Source: PC2-FR-12d, TN-30."""

VERSION_MISMATCH: Final = "ps6.envelope.version_mismatch_total"
"""Responses whose payload has another major version than the tool expects; they were withheld. Counter; consumer.
Source: PC2-D-26, TN-29."""

CONSUMER: Final = "consumer-agent"
"""The only value of the label `consumer`."""

SECURITY_INCIDENTS: Final = "sidecar.gateway.security_incidents_total"
"""Responses that may belong to another user; they were withheld. Counter; reason. Source: PC2-FR-12c."""

DATA_CALLS: Final = "sidecar.gateway.calls_total"
"""Calls of data services; `result` is `released`, or the reason why the response was withheld. Counter; sub_agent_id,
tool_id, result."""

DATA_CALL_SECONDS: Final = "sidecar.gateway.duration_seconds"
"""Duration of calls of data services. Histogram; tool_id."""

# --- metrics: turns, dispatches, children -----------------------------------------------------------------------------

TURNS_ENDED: Final = "sidecar.turn.ended_total"
"""Ended turns. `cap` is `over` if the turn had more calls than `dispatch.fan_out_cap`, `at` if it had as many,
otherwise `within`. Counter; close_reason, cap."""

IDLE_TURNS_ENDED: Final = "sidecar.turn.idle_ended_total"
"""Idle turns that were ended because they were too old (`lifetime`) or too many (`room`: more than
`dispatch.admission.idle_turns`). **Alert** above a tenth of all turns. Counter; why."""

TURNS_OVER_CAP: Final = "sidecar.turn.over_cap_total"
"""Turns with more calls than `dispatch.fan_out_cap`; if there are many, consider a higher cap. Counter. Source:
PC2-OBS-3."""

INTENTS: Final = "sidecar.turn.intents"
"""Number of different sub-agents that the model called in a turn, including calls above the cap. In spite of the name,
it does not count declared [intents](langchain.md#intents). Histogram. Source: PC2-OBS-2, TN-17."""

FAN_OUT: Final = "sidecar.turn.sub_agents"
"""Number of different sub-agents that ran in a turn. Histogram. Source: PC1-OBS-3."""

FAN_OUT_CALLS: Final = "sidecar.turn.fan_out_calls_total"
"""Calls of turns in which several calls ran; `result` is `succeeded` or `not_succeeded`. Counter; result. Source:
PC2-OBS-8."""

PARTIAL_FAILURES: Final = "sidecar.turn.partial_failures_total"
"""Turns in which several calls ran and only some succeeded. Counter. Source: PC2-OBS-9, TN-27."""

OFFERED_TOKENS: Final = "sidecar.surface.estimated_tokens"
"""Prompt size: estimated tokens of the tools and of the prompt's prefix, at each bind. Histogram."""

PREFIXES: Final = "sidecar.surface.prefixes_total"
"""Binds by whether this process has bound the same tools and prefix before (`repeated`) or not (`new`). A provider's
prompt cache can serve only repeated prefixes. Counter; prefix."""

ROUTING_SECONDS: Final = "sidecar.turn.routing_seconds"
"""Time from the bind to the first call, in which the orchestrator's model chooses sub-agents. The label is `needed` if
the turn called a sub-agent for which the model must write [`prior_context`](langchain.md#intents), otherwise
`not_needed`. Histogram; prior_context. Source: PC1-OBS-2."""

COMPOSING_SECONDS: Final = "sidecar.turn.composing_seconds"
"""Time from the last outcome to the end of the turn, in which the orchestrator's model composes the answer. Histogram.
Source: PC1-OBS-2."""

TURN_SECONDS: Final = "sidecar.turn.duration_seconds"
"""Time from the bind to the end. The label says how many sub-agents ran: `none`, `one` or `several`. Histogram;
fan_out. Source: PC1-OBS-2."""

COMPACTION: Final = "sidecar.episode.compaction_total"
"""Binds by whether [compaction](history.md#compaction) of the conversation was `due`, `not_due` or `unknown`. Counter;
due. Source: PC1-OBS-6."""

EPISODE_TURNS: Final = "sidecar.episode.turns"
"""Length of the conversation at each bind: turns after its summary. Histogram. Source: PC1-NFR-5."""

EPISODE_TOKENS: Final = "sidecar.episode.estimated_tokens"
"""Length of the conversation at each bind, in estimated tokens; use it to choose `history.compact_above_tokens`.
Histogram. Source: PC1-NFR-5."""

FAILSAFES: Final = "sidecar.turn.failsafe_total"
"""Responses in which the model declared more [intents](langchain.md#intents) than it called sub-agents, so that the
model was asked once more. If there are many, improve the orchestrator's prompt. Counter. Source: PC1-NFR-2b, TN-16."""

DAILY_LIMITS: Final = "sidecar.calls.daily_limit_total"
"""Calls that a [daily limit](definitions.md#daily-limits) refused. With the reason `DAILY_LIMIT_UNKNOWN`, check that
the record is readable. Counter; sub_agent_id, reason."""

TEXTS_CHANGED: Final = "sidecar.child.texts_changed_total"
"""Attempts from whose text the sidecar removed hidden characters or special tokens of a model template ([threat
model](threat-model.md)). Counter; sub_agent_id."""

PRIOR_CONTEXT_MISSING: Final = "sidecar.turn.prior_context_missing_total"
"""Responses that call a [new](langchain.md#intents) sub-agent without `prior_context`; if there are many, improve the
orchestrator's prompt. Counter; orchestrator_id. Source: TN-12."""

DISPATCHES: Final = "sidecar.dispatch.settled_total"
"""Dispatches whose calls all have an outcome; `result` says how many succeeded: `all`, `some`, `none`, or `empty` for a
dispatch without calls. Counter; result."""

OVERHEAD_SECONDS: Final = "sidecar.dispatch.overhead_seconds"
"""Time of a dispatch that was spent in the sidecar itself. Histogram. Source: PC2-OBS-5."""

CHILD_SECONDS: Final = "sidecar.child.duration_seconds"
"""Duration of calls that ran. Histogram; sub_agent_id, outcome. Source: PC2-OBS-4."""

CHILD_FAILURES: Final = "sidecar.child.failures_total"
"""Calls that failed (`axis` 1) or were degraded (`axis` 2). Counter; sub_agent_id, axis. Source: PC2-OBS-9."""

CHILD_RETRIES: Final = "sidecar.child.retries_total"
"""Failed attempts that were retried. Counter; sub_agent_id."""

CHILD_TOKENS: Final = "sidecar.child.tokens_total"
"""Tokens that hosts reported: `input`, `output`, and `cached` (the part of the input that the provider read from its
cache; absent if the provider does not report it). Counter; sub_agent_id, kind."""

STATUS_EVENTS: Final = "sidecar.child.status_events"
"""Progress reports per call that ran. Histogram; sub_agent_id. Source: PC2-OBS-7."""

STATUS_DECISIONS: Final = "sidecar.child.status_decisions_total"
"""Progress reports by how they were handled; `still_working` counts the reports that the sidecar made in place of a
silent sub-agent. Counter; sub_agent_id, decision. Source: PC2-FR-13."""

# --- metrics: the process ---------------------------------------------------------------------------------------------

START_TIME: Final = "sidecar.start_time_seconds"
"""Unix time of the process's start. Alert rules see from it that counters began again at 0. Gauge."""

TELEMETRY_DROPPED: Final = "sidecar.telemetry.dropped_total"
"""Spans, log records and metrics that the collector did not accept. Counter; signal."""

ANOMALIES: Final = "sidecar.anomalies_total"
"""Unexpected conditions; the log event `sidecar.anomaly` has the details. Counter; kind."""

OPERATORS_REFUSED: Final = "sidecar.operators.refused_total"
"""Operators' calls that were refused; the log has caller and method. Counter; cause."""

LOOP_DEATHS: Final = "sidecar.loop_deaths_total"
"""Background loops that failed and were restarted. Counter; loop."""

LOG_LINES_LOST: Final = "sidecar.log_lines_lost_total"
"""Log lines that were lost because they were not read in time. Counter."""

LOG_LINES_LEFT_OUT: Final = "sidecar.log_lines_left_out_total"
"""Warnings and errors beyond the limit of their kind. Counter."""

DEFINITIONS_LOADS: Final = "sidecar.definitions.loads_total"
"""Changes of the definitions that were accepted (`in_force`) or `refused`. Counter; result."""

DEFINITIONS_INVALID: Final = "sidecar.definitions.invalid"
"""1 while the newest definitions have errors, so that older ones, or none, are in force. Gauge."""

DEFINITIONS_PROBLEMS: Final = "sidecar.definitions.problems"
"""Problems of the newest definitions. Gauge; severity."""

DEFINITIONS_REVISION: Final = "sidecar.definitions.revision_info"
"""Always 1; `revision` names the definitions in force. Gauge; revision."""

FLAGS_STALE: Final = "sidecar.flags.stale"
"""1 if the flags are too old to be used. Gauge; backend. Source: PF1-T-19."""

TURNS_OPEN: Final = "sidecar.turns_open"
"""Open turns. Gauge."""

TURNS_IDLE: Final = "sidecar.turns_idle"
"""Open turns in which nothing runs. Gauge."""

LANES: Final = "sidecar.session.lanes"
"""Open [session lanes](session-lane.md). The metrics of lanes are exported only if lanes are offered. Gauge."""

LANE_OPERATIONS: Final = "sidecar.session.operations_total"
"""Ended operations of lanes. `code` is gRPC's code, or `DETACHED` if the lane broke first. Counter; method, code."""

LANE_STALLS: Final = "sidecar.session.stalls_total"
"""Lanes closed because their client did not read them. **Alert** if it rises. Counter."""

LANE_CREDIT: Final = "sidecar.session.out_of_credit_total"
"""Operations that ended because their client granted too little credit, for the `operation` or the `lane`. Counter;
credit."""

DISPATCHES_RUNNING: Final = "sidecar.dispatches_running"
"""Running dispatches. Gauge."""

GRANTS_ALIVE: Final = "sidecar.grants_alive"
"""Running attempts, each with a valid grant to call tools. Gauge."""

READY: Final = "sidecar.ready"
"""1 while the sidecar accepts new turns. Gauge."""

LOOP_LAG: Final = "sidecar.loop.lag_seconds"
"""Delay of the event loop, measured four times a second. If the p99 is above 50 ms, a call blocks the loop or the core
is busy. Histogram. Source: issue "Trust"."""

LOOP_HELD_UP: Final = "sidecar.loop.held_up_total"
"""Times when a call blocked the event loop, and so every turn, for a quarter of a second or longer; the log names the
frame. The label is `none` if no plugin's code was running. **Alert on any**. Counter; plugin."""

# --- metrics: integrity of the record --------------------------------------------------------------------------------

CHECKPOINTS: Final = "sidecar.record.checkpoints_total"
"""Checkpoints that were `written`, and attempts that `failed`. Counter; result."""

CHECKPOINT_WAITING: Final = "sidecar.record.checkpoint_waiting_seconds"
"""How long a due checkpoint could not be written; 0 if none is due. **Alert** if it lasts: unsigned facts could be
removed without a trace. Gauge."""

RECORD_PURGED: Final = "sidecar.record.purged_total"
"""What retention removed: a `turn`, or the messages of an `attempt`. Counter; kind."""

PROJECTION_LAG: Final = "sidecar.record.projection_lag_facts"
"""Recorded facts that lists do not show yet; turns are not affected. **Alert** if it lasts. Gauge."""

LISTS_BEHIND: Final = "sidecar.record.lists_behind_total"
"""Requests for a list of turns whose answer was incomplete; its field `as_of` is the time up to which it is complete.
**Alert on any**. Counter."""

# --- metrics: rollouts, as in PF1 where it defines one ----------------------------------------------------------------

LIFECYCLE_TRANSITIONS: Final = "subagent.lifecycle.transition_total"
"""Changes of lifecycle states that took effect, each counted at one replica. Counter; subagent_id, source_state,
target_state, trigger. Source: PF1-OBS-1."""

GATES_FAILED: Final = "subagent.lifecycle.gate_failed_total"
"""Gates that refused a step; outages do not count. Counter; subagent_id, milestone. Source: PF1-OBS-2, TN-78."""

KILL_SWITCHES_FIRED: Final = "subagent.lifecycle.kill_switch_fired_total"
"""Recorded kills, by a flag or an operator. **Alert on any**. Counter; subagent_id. Source: PF1-OBS-3."""

ROLLBACK_SECONDS: Final = "subagent.lifecycle.rollback_duration_seconds"
"""Time from the request of a rollback to the first bind after it. Histogram; subagent_id. Source: PF1-OBS-4."""

CLEANUP_PENDING: Final = "subagent.lifecycle.decommission_cleanup_pending_total"
"""Decommissions whose cleanup is not complete. Gauge. Source: PF1-OBS-5."""

STOPS_PENDING: Final = "sidecar.rollout.stops_pending"
"""Kills and ramp-downs that only this replica applies, because they are not recorded yet. **Alert** if it lasts.
Gauge."""

AUDIT_WAITING: Final = "sidecar.audit.waiting_seconds"
"""Age of the oldest audit event that a sink has not accepted; 0 if there is none. **Alert** if it rises. Gauge."""

AUDIT_EXPORTED: Final = "sidecar.audit.exported_total"
"""Audit events that the sink accepted. Counter; sink."""

AUDIT_REMOVED: Final = "sidecar.audit.removed_total"
"""Audit rows that retention removed. Counter. Source: PF1-NFR-3."""

COHORTS: Final = "sidecar.rollout.cohorts"
"""Distinct [cohorts](audit.md#many-cohorts) of the day. **Alert** above `sidecar.rollout.cohorts_bound`. Gauge. Source:
PF1-D-65, TN-83."""

COHORTS_BOUND: Final = "sidecar.rollout.cohorts_bound"
"""The limit `rollout.max_cohorts`; above it the sidecar also logs a warning. Gauge."""

DRIFT: Final = "sidecar.rollout.drift"
"""Contradictions between configuration, flags and rollout. **Alert** if it lasts. Gauge; subagent_id. Source: TN-71."""

ROLLOUT_DEFINITION: Final = "sidecar.rollout.definition_info"
"""Always 1. Join it with other series by `subagent_id`, e.g. for the panels of one vertical. `active` is `yes` or `no`.
Gauge; subagent_id, slot, vertical, state, active. Source: PF1-D-51."""

RAMP: Final = "sidecar.rollout.ramp"
"""The definition's ramp, 0 to 1, while it is in `promote`. Gauge; subagent_id."""

PINNED_TURNS: Final = "sidecar.rollout.pinned_turns"
"""Open turns at this replica that use the definition. Gauge; subagent_id. Source: PF1-FR-8."""

CLEANUP_OVERDUE: Final = "sidecar.rollout.decommission_overdue"
"""Decommissions that exceeded their window. **Alert on any**. Gauge. Source: PF1-NFR-5a."""

FLAGS_AGE: Final = "sidecar.flags.age_seconds"
"""Time since the last confirmed contact with the flag backend; 1,000,000,000 if there was none. Gauge; backend. Source:
PF1-T-19."""
