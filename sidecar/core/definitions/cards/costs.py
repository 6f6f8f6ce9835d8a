"""The minimum cost of a turn, from the prices in the model registry.

This is an estimate for comparing configurations, not a bill. It assumes two calls of each model (for its calls, then
for its answer). Only the fixed part of a prompt counts, not the conversation, tool results or a provider's cache.
Output counts in full if `tuning.max_output_tokens` limits it, otherwise not at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.identifiers import DefinitionId

REQUESTS: Final = 2
"""The number of requests to one model in a turn: one for its tool calls, one for its answer."""
MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class AgentCost:
    """The cost of one agent in one turn.

    Attributes:
        prompt_tokens: estimate of its longest prompt.
        window_percent: the share of its model's context window that `prompt_tokens` uses.
        input_usd: US dollars; None: the model's price is unknown.
        output_tokens: the most output tokens; None: unlimited.
        output_usd: US dollars; None: the price is unknown or the output is unlimited.
    """

    prompt_tokens: int
    window_percent: float
    input_usd: float | None
    output_tokens: int | None
    output_usd: float | None

    @property
    def usd(self) -> float | None:
        """The known part of the cost in US dollars; None if the price of the input is unknown."""
        return None if self.input_usd is None else self.input_usd + (self.output_usd or 0.0)


@dataclass(frozen=True, slots=True)
class TurnCost:
    """The cost of an orchestrator's turn, in US dollars; None: a price is unknown.

    Attributes:
        without_calls: the orchestrator answers without a call.
        with_all: the orchestrator calls every listed sub-agent. The most expensive definition of each slot counts.
    """

    without_calls: float | None
    with_all: float | None


def agent_cost(card: Card, prompt_tokens: int) -> AgentCost:
    """Return one agent's part of a turn. Source: PC1-NFR-4a."""
    model, most = card.model, card.definition.tuning.max_output_tokens
    # Without a limit the output has no upper bound, and a lower one would be misleading.
    written = None if most is None else REQUESTS * most
    return AgentCost(
        prompt_tokens=prompt_tokens,
        window_percent=round(100 * prompt_tokens / model.context_window, 2),
        input_usd=_priced(REQUESTS * prompt_tokens, model.price_per_million_input),
        output_tokens=written,
        output_usd=None if written is None else _priced(written, model.price_per_million_output),
    )


def turn_cost(orchestrator: Card, catalogue: Catalogue, agents: Mapping[DefinitionId, AgentCost]) -> TurnCost:
    """Return the cost of a turn of `orchestrator` from the costs of all agents."""
    own = agents[orchestrator.definition.id].usd
    parts = [own]
    for slot in orchestrator.definition.sub_agents:
        # Every definition that could fill the slot: a rollout may select any of them.
        fillers = [agents[name].usd for name in catalogue.slots[slot]]
        known = [usd for usd in fillers if usd is not None]
        # One unknown price makes the slot's cost unknown: a maximum over the others could be too low.
        parts.append(max(known) if known and len(known) == len(fillers) else None)
    # As for a slot: a sum without an unknown part would be too low.
    known_parts = [part for part in parts if part is not None]
    return TurnCost(own, round(sum(known_parts), 9) if len(known_parts) == len(parts) else None)


def _priced(tokens: int, per_million: float | None) -> float | None:
    return None if per_million is None else round(tokens * per_million / MILLION, 9)
