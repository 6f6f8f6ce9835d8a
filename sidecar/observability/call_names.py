"""Names of the metrics and log events of RPCs, limits, calls, effects and costs; the rules of `names.py` apply."""

from typing import Final

RPC_SECONDS: Final = "rpc.server.call.duration"
"""How long RPCs and operations of lanes took, in seconds. Histogram; labels `RPC_LABELS`.

Source: OpenTelemetry semantic conventions 1.45, RPC metrics.
"""

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
"""Calls and delegations that have their outcome, whether they ran or not. Counter; sub_agent_id, definition_id, arm (as
for `CHILD_COST`), outcome, reason (a `CallFailure`, empty for a success). A call of an unknown tool names none."""

EFFECTS: Final = "sidecar.gateway.effects_total"
"""Tool calls that change something. Counter; sub_agent_id, tool_id, result (`done`, `refused`, `not_sent`, `unknown`;
`repeated`: another attempt got the answer of an earlier attempt). An operator must examine each `unknown`."""

SCORES: Final = "sidecar.child.score"
"""Scores of calls, 0 to 1. Histogram; sub_agent_id, arm (as for `CHILD_COST`), score (its name; the first 50 names of
a process, then `other`), source (`judge`, `user`, `rule`)."""

EVALUATION_RESULT: Final = "gen_ai.evaluation.result"
"""A score was recorded. Source: OpenTelemetry semantic conventions for generative AI, event of that name."""

EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_VALUE: Final = "gen_ai.evaluation.score.value"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"

CHILD_COST: Final = "sidecar.child.cost_usd_total"
"""What sub-agents cost in US dollars. Counter; sub_agent_id, definition_id, arm (`active`, `target`, `control`)."""

CHILD_UNPRICED: Final = "sidecar.child.cost_unknown_total"
"""Attempts whose tokens have no known price. Counter; sub_agent_id, definition_id."""

ADMISSION_REFUSED: Final = "sidecar.admission.refused_total"
"""Calls that were refused because a limit is reached. Counter; limit (one of `LIMITS`)."""

LIMITS: Final = (
    *("calls", "dispatches", "health_watches", "lane_operations", "lanes", "principal", "time_left", "turns"),
    *("verifications", "vertical", "wait", "watchers"),
)
"""Values of the label `limit`: concurrent calls of a listener, dispatches, health watchers, operations of a lane,
session lanes, dispatches of one user, time until the deadline, turns in which work runs, verifications of the record,
dispatches of one vertical, the wait of binds for their start, watchers of turns."""

VERTICAL_DISPATCHES: Final = "sidecar.dispatches_of_vertical"
"""Dispatches that call sub-agents of a vertical. Gauge; vertical."""

REFUSED_FOR_LIMIT: Final = "sidecar.admission.refused"
"""A call was refused because a limit is reached: which."""

ENDED_BYTES: Final = "sidecar.turns_ended_bytes"
"""What the answers and requests of ended turns take in memory. Gauge."""

APPEND_SECONDS: Final = "sidecar.record.append_seconds"
"""How long an append to the record took until it was durable. Histogram; alert above half a second."""

CLOCK: Final = "sidecar.clock_seconds"
"""The clock of the process, in seconds since 1970. Gauge; an alert compares it with the time of the scrape."""

FILES_OPEN: Final = "sidecar.files_open"
"""File descriptors of the process that are open. Gauge; alert when it comes near `FILES_LIMIT`."""

FILES_LIMIT: Final = "sidecar.files_limit"
"""File descriptors that the process may have open at a time. Gauge."""

CONNECTIONS_LIMITED: Final = "sidecar.connections_limited"
"""The process may open so few files that its listeners take fewer connections than configured: limit, connections."""

TLS_CERTIFICATE_LEFT: Final = "sidecar.tls.certificate_left_seconds"
"""Time until a certificate expires. Gauge, label section; alert below a third of `TLS_CERTIFICATE_LIFE`."""

TLS_CERTIFICATE_LIFE: Final = "sidecar.tls.certificate_life_seconds"
"""For how long a certificate is valid in all, from its beginning to its end. Gauge, label section."""
