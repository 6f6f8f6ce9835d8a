"""Names of the metrics of RPCs, limits, calls, effects and costs; the rules of `names.py` apply."""

from typing import Final

RPC_SECONDS: Final = "rpc.server.call.duration"
"""Duration of every RPC (`carrier` is `rpc`) and of every operation of a session lane (`lane`), in seconds.
`error_type` is the error's reason. Over OTLP the labels have the names of OpenTelemetry's attributes, e.g.
`rpc.method`. Histogram; rpc_method, rpc_response_status_code, error_type, carrier. Source: OpenTelemetry semantic
conventions 1.45, RPC metrics."""

RPC_LABELS: Final = ("rpc_method", "rpc_response_status_code", "error_type", "carrier")
"""`package.Service/Method`; gRPC's code; the error's reason, empty if there is none; `rpc` or `lane`.

The labels have underscores because Prometheus may replace dots in names; a rule with dots would then not match.
"""

OTLP_ATTRIBUTES: Final = {
    "rpc_method": "rpc.method",
    "rpc_response_status_code": "rpc.response.status_code",
    "error_type": "error.type",
}
"""The labels above with the names of OpenTelemetry's conventions, which a collector receives."""

CALLS: Final = "sidecar.child.calls_total"
"""Calls and delegations with an outcome, including calls that did not run: whether users are served, and by which
definition. `reason` is empty for a success. [`arm`](glossary.md#rollout) is `active` if the active definition served
the user, `target` if the previous one did, and `control` for users in the control arm of an experiment. Counter;
sub_agent_id, definition_id, arm, outcome, reason."""

EFFECTS: Final = "sidecar.gateway.effects_total"
"""Tool calls with an effect. `result` is `done`, `refused`, `not_sent`, `repeated` (another attempt got the result of
an earlier one) or `unknown`. **Investigate any** `unknown`: the effect may have happened, and no sub-agent knows the
result ([effects](data-services.md#effects)). Counter; sub_agent_id, tool_id, result."""

SCORES: Final = "sidecar.child.score"
"""[Scores](scores.md), 0 to 1. The label `score` is the name of the score. The first 50 names of a process have their
own series; further names are counted as `other`. `source` is `judge`, `user` or `rule`. Histogram; sub_agent_id, arm,
score, source."""

EVALUATION_RESULT: Final = "gen_ai.evaluation.result"
"""A score was recorded. Source: OpenTelemetry semantic conventions for generative AI, event of that name."""

EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_VALUE: Final = "gen_ai.evaluation.score.value"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"

CHILD_COST: Final = "sidecar.child.cost_usd_total"
"""[Cost](costs.md) of sub-agents in US dollars. Counter; sub_agent_id, definition_id, arm."""

CHILD_UNPRICED: Final = "sidecar.child.cost_unknown_total"
"""Attempts without a known [price](costs.md) of their model. Counter; sub_agent_id, definition_id."""

ADMISSION_REFUSED: Final = "sidecar.admission.refused_total"
"""Calls refused because a limit is reached. **Alert** if `turns`, `dispatches` or `wait` are refused, and add replicas.
If `vertical` is refused, find out why its sub-agents are slow. Counter; limit."""

LIMITS: Final = (
    *("calls", "dispatches", "health_watches", "lane_operations", "lanes", "principal", "time_left", "turns"),
    *("verifications", "vertical", "wait", "watchers"),
)
"""Values of the label `limit`: concurrent calls of a listener, dispatches, health watchers, operations of a lane,
session lanes, dispatches of one user, time until the deadline, turns in which work runs, verifications of the record,
dispatches of one vertical, the wait of binds for their start, watchers of turns."""

VERTICAL_DISPATCHES: Final = "sidecar.dispatches_of_vertical"
"""Running dispatches that call sub-agents of the vertical. Gauge; vertical."""

ENDED_BYTES: Final = "sidecar.turns_ended_bytes"
"""Memory of the answers and requests of ended turns; at most `dispatch.admission.ended_turn_bytes`. Gauge."""

APPEND_SECONDS: Final = "sidecar.record.append_seconds"
"""Time until an append to the record is durable. Each call waits for at least two appends. **Alert** above half a
second. Histogram."""

CLOCK: Final = "sidecar.clock_seconds"
"""Unix time by the clock of the process. **Alert** if it differs from the time of the scrape. Gauge."""

FILES_OPEN: Final = "sidecar.files_open"
"""Open file descriptors. **Alert** above 80 % of `sidecar.files_limit`. Gauge."""

FILES_LIMIT: Final = "sidecar.files_limit"
"""Maximum of open file descriptors. Gauge."""

TLS_CERTIFICATE_LEFT: Final = "sidecar.tls.certificate_left_seconds"
"""Remaining validity of a [certificate](tls.md#rotation); the label is the section of the settings that names it.
**Alert** below a third of its total validity. Gauge; section."""

TLS_CERTIFICATE_LIFE: Final = "sidecar.tls.certificate_life_seconds"
"""Total validity of the same certificate. Gauge; section."""
