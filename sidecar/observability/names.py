"""Names of metrics and log events. `call_names`, `rollout_names` and `span_names` have those of calls, rollouts, spans.

Metric names follow OpenTelemetry; a Prometheus server that does not request UTF-8 names gets underscores for dots. No
label holds a user, an episode or a turn, so the number of series stays small. A name ends with its unit, if any.
"""

from typing import Final

# --- metrics: envelopes -----------------------------------------------------------------------------------------------

PRINCIPAL_MISMATCH: Final = "ps6.envelope.principal_mismatch_total"
"""Envelopes withheld because they are for another user. Counter; consumer; alert on any. Source: PC2-FR-12d, TN-30."""

VERSION_MISMATCH: Final = "ps6.envelope.version_mismatch_total"
"""Envelopes withheld because their payload has another major version. Counter; consumer. Source: PC2-D-26, TN-29."""

CONSUMER: Final = "consumer-agent"
"""The only value of the label `consumer`."""

SECURITY_INCIDENTS: Final = "sidecar.gateway.security_incidents_total"
"""Withheld responses that may belong to another user. Counter; reason. Source: PC2-FR-12c."""

DATA_CALLS: Final = "sidecar.gateway.calls_total"
"""Calls of data services. Counter; sub_agent_id, tool_id, result (`released`, or why the response was withheld)."""

DATA_CALL_SECONDS: Final = "sidecar.gateway.duration_seconds"
"""How long data services took. Histogram; tool_id."""

# --- metrics: turns, dispatches, children -----------------------------------------------------------------------------

TURNS_ENDED: Final = "sidecar.turn.ended_total"
"""Turns that ended. Counter; close_reason, cap (calls compared with the fan-out cap: `within`, `at`, `over`)."""

IDLE_TURNS_ENDED: Final = "sidecar.turn.idle_ended_total"
"""Turns that were ended because nothing ran in them. Counter; why (`lifetime`: too long; `room`: too many turns)."""

TURNS_OVER_CAP: Final = "sidecar.turn.over_cap_total"
"""Turns with more calls than the fan-out cap; the further calls are dropped. Counter. Source: PC2-OBS-3."""

INTENTS: Final = "sidecar.turn.intents"
"""Distinct sub-agents called in a turn, before the cap. Histogram with bounds 0, 1, 2. Source: PC2-OBS-2, TN-17."""

FAN_OUT: Final = "sidecar.turn.sub_agents"
"""Distinct sub-agents that ran in a turn. Histogram. Source: PC1-OBS-3."""

FAN_OUT_CALLS: Final = "sidecar.turn.fan_out_calls_total"
"""Calls that ran, in turns in which two or more ran. Counter; result (`succeeded`, `not_succeeded`). PC2-OBS-8."""

PARTIAL_FAILURES: Final = "sidecar.turn.partial_failures_total"
"""Turns in which some of several sub-agents succeeded, and some did not. Counter. Source: PC2-OBS-9, TN-27."""

OFFERED_TOKENS: Final = "sidecar.surface.estimated_tokens"
"""Estimated tokens of the tools and the prompt's prefix, at each bind. Histogram."""

PREFIXES: Final = "sidecar.surface.prefixes_total"
"""Binds by whether this process had bound the same tools and prefix before. Counter; prefix (`repeated`, `new`)."""

ROUTING_SECONDS: Final = "sidecar.turn.routing_seconds"
"""From the bind to the first call. Histogram; prior_context (`needed`: intent switched; `not_needed`). PC1-OBS-2."""

COMPOSING_SECONDS: Final = "sidecar.turn.composing_seconds"
"""From the last outcome to the turn's end: the orchestrator's model composing. Histogram. Source: PC1-OBS-2."""

TURN_SECONDS: Final = "sidecar.turn.duration_seconds"
"""From the bind to the end. Histogram; fan_out (`none`, `one`, `several` sub-agents that ran). Source: PC1-OBS-2."""

COMPACTION: Final = "sidecar.episode.compaction_total"
"""Turns bound; due for compaction or not. Counter; due (`due`, `not_due`, `unknown`). Source: PC1-OBS-6."""

EPISODE_TURNS: Final = "sidecar.episode.turns"
"""Turns of the episode after its summary, at each bind. Histogram. Source: PC1-NFR-5."""

EPISODE_TOKENS: Final = "sidecar.episode.estimated_tokens"
"""Estimated tokens of the episode's history, at each bind. Histogram. Source: PC1-NFR-5."""

FAILSAFES: Final = "sidecar.turn.failsafe_total"
"""Responses that declared more intents than they called sub-agents. Counter. Source: PC1-NFR-2b, TN-16."""

DAILY_LIMITS: Final = "sidecar.calls.daily_limit_total"
"""Calls refused by `limits.calls_per_user_per_day`. Counter; labels sub_agent_id, reason (`DAILY_LIMIT_REACHED`,
`DAILY_LIMIT_UNKNOWN`: the record could not say)."""

TEXTS_CHANGED: Final = "sidecar.child.texts_changed_total"
"""Attempts whose text lost hidden characters, or whose special tokens were split. Counter; sub_agent_id."""

PRIOR_CONTEXT_MISSING: Final = "sidecar.turn.prior_context_missing_total"
"""Calls for a new intent that lacked the argument `prior_context`. Counter; orchestrator_id. Source: TN-12."""

DISPATCHES: Final = "sidecar.dispatch.settled_total"
"""Dispatches that settled. Counter; result (`all`, `some`, `none` succeeded, or `empty`)."""

OVERHEAD_SECONDS: Final = "sidecar.dispatch.overhead_seconds"
"""Time of a dispatch in which neither sub-agents nor data services worked. Histogram. Source: PC2-OBS-5."""

CHILD_SECONDS: Final = "sidecar.child.duration_seconds"
"""How long the calls took that were run. Histogram; sub_agent_id, outcome. Source: PC2-OBS-4."""

CHILD_FAILURES: Final = "sidecar.child.failures_total"
"""Calls that failed (axis 1) or lacked data (degraded, axis 2). Counter; sub_agent_id, axis. Source: PC2-OBS-9."""

CHILD_RETRIES: Final = "sidecar.child.retries_total"
"""Attempts that failed and were made again. Counter; sub_agent_id."""

CHILD_TOKENS: Final = "sidecar.child.tokens_total"
"""Tokens that hosts reported. Counter; sub_agent_id, kind (`input`; `cached`: input tokens from a cache; `output`)."""

STATUS_EVENTS: Final = "sidecar.child.status_events"
"""Progress reports of one invocation. Histogram; sub_agent_id. Source: PC2-OBS-7."""

STATUS_DECISIONS: Final = "sidecar.child.status_decisions_total"
"""Progress reports by what the policy made of them. Counter; sub_agent_id, decision. Source: PC2-FR-13."""

# --- metrics: the process ---------------------------------------------------------------------------------------------

START_TIME: Final = "sidecar.start_time_seconds"
"""When the process started, in seconds since 1970. Gauge; shows alert rules that a counter began again at 0."""

TELEMETRY_DROPPED: Final = "sidecar.telemetry.dropped_total"
"""Items that never reached the configured collector. Counter; signal (`spans`, `logs`, `metrics`)."""

ANOMALIES: Final = "sidecar.anomalies_total"
"""Things that should not happen. Counter; kind. The log has the detail."""

OPERATORS_REFUSED: Final = "sidecar.operators.refused_total"
"""Calls of operators that were refused. Counter; cause. The log says who called what."""

LOOP_DEATHS: Final = "sidecar.loop_deaths_total"
"""Background loops that ended and were restarted. Counter; loop."""

LOG_LINES_LOST: Final = "sidecar.log_lines_lost_total"
"""Log lines dropped because their reader was too slow. Counter."""

LOG_LINES_LEFT_OUT: Final = "sidecar.log_lines_left_out_total"
"""Warnings and errors that were too many of one kind to be written. Counter. The log says of which kinds."""

DEFINITIONS_LOADS: Final = "sidecar.definitions.loads_total"
"""New states of the definitions. Counter; result (`in_force`, `refused`)."""

DEFINITIONS_INVALID: Final = "sidecar.definitions.invalid"
"""1 while the newest state has errors and an older one, or none, is in force. Gauge."""

DEFINITIONS_PROBLEMS: Final = "sidecar.definitions.problems"
"""Problems of the newest state. Gauge; severity."""

DEFINITIONS_REVISION: Final = "sidecar.definitions.revision_info"
"""1, with the revision in force as label. Gauge; revision."""

FLAGS_STALE: Final = "sidecar.flags.stale"
"""1 while a flag backend's flags are too old to be used. Gauge; backend. Source: PF1-T-19."""

TURNS_OPEN: Final = "sidecar.turns_open"
"""Turns that are open. Gauge."""

TURNS_IDLE: Final = "sidecar.turns_idle"
"""Open turns in which nothing runs. Gauge."""

LANES: Final = "sidecar.session.lanes"
"""Session lanes that are open. Gauge."""

LANE_OPERATIONS: Final = "sidecar.session.operations_total"
"""Operations of lanes that have ended. Counter; method, code (of gRPC; `DETACHED`: its lane broke first)."""

LANE_STALLS: Final = "sidecar.session.stalls_total"
"""Lanes that were given up because their client did not read them. Counter."""

LANE_CREDIT: Final = "sidecar.session.out_of_credit_total"
"""Operations that were ended because their client granted too little. Counter; credit (`operation` or `lane`)."""

DISPATCHES_RUNNING: Final = "sidecar.dispatches_running"
"""Dispatches that run. Gauge."""

GRANTS_ALIVE: Final = "sidecar.grants_alive"
"""Running attempts, each with its grant (the key with which it may call tools). Gauge."""

READY: Final = "sidecar.ready"
"""1 while new turns are taken. Gauge."""

LOOP_LAG: Final = "sidecar.loop.lag_seconds"
"""How long the event loop took to answer the watchdog, four times a second. Histogram. Source: issue "Trust"."""

LOOP_HELD_UP: Final = "sidecar.loop.held_up_total"
"""Times at which the event loop did not answer for a quarter of a second. Counter; plugin (`none`: no plugin's code was
running). Any is an alert."""

# --- metrics: integrity of the record --------------------------------------------------------------------------------

CHECKPOINTS: Final = "sidecar.record.checkpoints_total"
"""Signed checkpoints of the record. Counter; result (`written`; `failed`: rounds that could not write theirs)."""

CHECKPOINT_WAITING: Final = "sidecar.record.checkpoint_waiting_seconds"
"""Seconds since a checkpoint is due that could not be written; 0 if none is due. Gauge; alert if it lasts."""

RECORD_PURGED: Final = "sidecar.record.purged_total"
"""What retention removed. Counter; kind (`turn`; `attempt`: messages that a runner sent in an attempt)."""

PROJECTION_LAG: Final = "sidecar.record.projection_lag_facts"
"""Facts that are recorded but not yet in the rows of lists. Gauge; alert if it lasts."""

LISTS_BEHIND: Final = "sidecar.record.lists_behind_total"
"""Lists that were not current (they carry `as_of`), because too many facts had changed. Counter; alert on any."""

# --- log events -------------------------------------------------------------------------------------------------------

ROUTING_DECISION: Final = "routing.decision"
"""The routing decision of a turn: candidates, calls and outcomes. One per turn. Source: PC2-FR-15, DESIGN 11."""

LIFECYCLE_TRANSITION: Final = "subagent.lifecycle.transition"
"""A lifecycle transition took effect: the audit event of PF1 §5.7, its fields and some more. Source: PF1-D-45."""

DECOMMISSION_STEP: Final = "subagent.lifecycle.decommission_step"
"""A step, a decision or an undo of a decommission, which is no lifecycle transition. Source: PF1-D-43, TN-87."""

ROLLOUT_EVENT: Final = "subagent.rollout.event"
"""Another change of a rollout: a ramp, a refusal, an activation. Not a lifecycle event. Source: PF1-D-49."""

SECURITY_INCIDENT: Final = "security.incident"
"""A response of a data service may belong to another user. Source: PC2-FR-12c."""

ERROR_EMIT: Final = "agent.error_emit"
"""A sub-agent failed or was degraded: sub_agent_id, axis, is_final, nothing else. Source: PC2-D-52, PC2-D-53, TN-32."""

TELEMETRY_CONTACT: Final = "sidecar.telemetry"
"""The collector accepts telemetry, or no longer accepts it."""

ANOMALY: Final = "sidecar.anomaly"
"""Something that should not happen."""

LOG_LEFT_OUT: Final = "sidecar.log_left_out"
"""How many warnings or errors of one kind were not written: event, kind, count."""

OPERATOR_REFUSED: Final = "sidecar.operators.refused"
"""A call of an operator was refused: method, cause, and the subject, id and key of the token if it is genuine."""

TURN_ENDED_BY_OPERATOR: Final = "sidecar.operators.turn_ended"
"""An operator ends a turn: which, who, why. Written before the turn is ended."""

USER_ERASED_BY_OPERATOR: Final = "sidecar.operators.user_erased"
"""An operator erases the content of a user: who, why; the user is not named. Written before the erasure."""

OPERATOR_KEYS_UNRESTRICTED: Final = "sidecar.operators.keys_unrestricted"
"""Some keys of operators have limits and others have none: the names of the unlimited keys."""

LANE_STALLED: Final = "sidecar.session.stalled"
"""A session lane was given up, since its client did not read it: lane_id, operations, oldest, dropped_bytes."""

LISTENING: Final = "sidecar.listening"
"""The addresses that are served."""

READY_CHANGED: Final = "sidecar.readiness"
"""New turns are accepted, or no longer accepted, and why."""

DRAINING: Final = "sidecar.draining"
"""A stop signal came: what is waited for, and how long."""

DRAIN_WAITS: Final = "sidecar.drain_waits"
"""What a stop still waits for, every five seconds: calls, dispatches, turns, and the oldest of them."""

STOPPED: Final = "sidecar.stopped"
"""The sidecar stops: turns that were cut off, turns that were ended, and turns that are left to other sidecars."""

DEFINITIONS_CHANGED: Final = "definitions.changed"
"""New definitions are in use."""

DEFINITIONS_ON_RECORD: Final = "definitions.on_record"
"""Binds use a recorded state of the definitions. `waiting`: definitions that serve no user before promotion."""

DEFINITION_UNFLAGGED: Final = "definitions.unflagged"
"""A new definition serves no user and cannot be promoted, because its entry names no flag: what to do."""

DEFINITION_CHANGED_MAJOR: Final = "definitions.major_change"
"""A loaded definition has a major change: its recorded content serves on, the new one waits for a promotion."""

DEFINITIONS_REFUSED: Final = "definitions.refused"
"""A new state of the definitions has errors; the last good one stays."""

SETTINGS_UNMATCHED: Final = "settings.unmatched"
"""Settings name something that the present definitions lack, or have no address for one of their sub-agents."""

FLAGS_CONTACT: Final = "flags.contact"
"""A flag backend became fresh or unreachable, or its flags changed."""

LOOP_DIED: Final = "sidecar.loop_died"
"""A background loop ended; it is restarted."""

LOOP_HELD: Final = "sidecar.loop_held_up"
"""The event loop does not answer: plugin, frame, stack. Another thread writes this line while the loop is blocked."""

LOOP_RELEASED: Final = "sidecar.loop_released"
"""The event loop runs again: plugin, frame, seconds."""

KEY_MADE: Final = "sidecar.key_made"
"""No signing key is configured, so the sidecar created one that no other replica has."""

KEYS_CHANGED: Final = "sidecar.keys_changed"
"""Key files have changed, and the keys in them are in use: `setting` names them."""

SPAN: Final = "sidecar.span"
"""A sampled span, where no OTLP endpoint is set."""
