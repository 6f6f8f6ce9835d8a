"""Names of the metrics of RPCs, calls, effects and costs; the rules of `names` apply."""

from typing import Final

RPC_SECONDS: Final = "rpc.server.call.duration"
"""How long RPCs and operations of lanes took, in seconds. Histogram; labels `RPC_LABELS`.

Source: OpenTelemetry semantic conventions 1.45, RPC metrics.
"""

RPC_LABELS: Final = ("rpc_method", "rpc_response_status_code", "error_type", "carrier")
"""`package.Service/Method`; gRPC's code; the error's reason, empty if there is none; `rpc` or `lane`.

With underscores: a rule that reads a label with a dot would hold under one spelling of the names only.
"""

OTLP_ATTRIBUTES: Final = {
    "rpc_method": "rpc.method",
    "rpc_response_status_code": "rpc.response.status_code",
    "error_type": "error.type",
}
"""Those labels as the conventions name them; a collector is sent these."""

CALLS: Final = "sidecar.child.calls_total"
"""Calls and delegations that have their outcome, whether they ran or not. Counter; sub_agent_id, definition_id, arm (as
of `CHILD_COST`), outcome, reason (a `CallFailure`, empty for a success). Those of an unknown tool name no sub-agent."""

EFFECTS: Final = "sidecar.gateway.effects_total"
"""Tool calls that change something. Counter; sub_agent_id, tool_id, result (`done`, `refused`, `not_sent`, `unknown`;
`repeated`: another attempt was given the answer of an earlier one). Any `unknown` is to be looked into."""

CHILD_COST: Final = "sidecar.child.cost_usd_total"
"""What sub-agents cost in US dollars. Counter; sub_agent_id, definition_id, arm (`active`, `target`, `control`)."""

CHILD_UNPRICED: Final = "sidecar.child.cost_unknown_total"
"""Attempts whose tokens have no known price. Counter; sub_agent_id, definition_id."""

TLS_CERTIFICATE_LEFT: Final = "sidecar.tls.certificate_left_seconds"
"""Time until the server certificate expires. Gauge; alert below a third of its life."""
