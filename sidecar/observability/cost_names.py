"""Names of the metrics of effects and of costs; the same holds as in `names`."""

from typing import Final

EFFECTS: Final = "sidecar.gateway.effects_total"
"""Tool calls that change something. Counter; sub_agent_id, tool_id, result (`done`, `refused`, `not_sent`, `unknown`;
`repeated`: another attempt was given the answer of an earlier one). Any `unknown` is to be looked into."""

CHILD_COST: Final = "sidecar.child.cost_usd_total"
"""What sub-agents cost in US dollars. Counter; sub_agent_id, definition_id, arm (`active`, `target`, `control`)."""

CHILD_UNPRICED: Final = "sidecar.child.cost_unknown_total"
"""Attempts whose tokens have no known price. Counter; sub_agent_id, definition_id."""
