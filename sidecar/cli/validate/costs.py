"""What `sidecar validate --costs` prints: what a turn costs at least, by the prices of the model registry."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.cards.costs import AgentCost, TurnCost, agent_cost, turn_cost
from sidecar.core.identifiers import DefinitionId

BASIS: Final = (
    "costs of a turn, estimated: each model is asked twice, fixed prompts only, output as far as max_output_tokens"
    " bounds it"
)


def agent_costs(catalogue: Catalogue, prompt_tokens: Mapping[DefinitionId, int]) -> dict[DefinitionId, AgentCost]:
    """Return each agent's part of a turn, in the catalogue's order."""
    return {name: agent_cost(card, prompt_tokens[name]) for name, card in catalogue.cards.items()}


def cost_lines(catalogue: Catalogue, prompt_tokens: Mapping[DefinitionId, int]) -> Iterator[str]:
    """Yield the lines to print."""
    costs = agent_costs(catalogue, prompt_tokens)
    yield BASIS
    for name, card in catalogue.cards.items():
        yield _agent_line(card, costs[name])
    for card in catalogue.cards.values():
        if card.definition.is_orchestrator:
            turn = turn_cost(card, catalogue, costs)
            asking = f"{_usd(turn.with_all)} asking {len(card.definition.sub_agents)}"
            yield f"  a turn of {card.definition.id}: {_usd(turn.without_calls)} alone, {asking}"


def cost_object(card: Card, catalogue: Catalogue, costs: Mapping[DefinitionId, AgentCost]) -> dict[str, Any]:
    """Return the same of one agent for programs; `turn` only of an orchestrator."""
    turn: TurnCost | None = turn_cost(card, catalogue, costs) if card.definition.is_orchestrator else None
    return asdict(costs[card.definition.id]) | ({} if turn is None else {"turn": asdict(turn)})


def _agent_line(card: Card, cost: AgentCost) -> str:
    prompt = f"{cost.prompt_tokens} tokens of prompt ({cost.window_percent:g} % of {card.model.id}'s window)"
    written = "" if cost.output_tokens is None else f", at most {cost.output_tokens} of output {_usd(cost.output_usd)}"
    return f"  {card.definition.id}: {prompt} {_usd(cost.input_usd)}{written}"


def _usd(amount: float | None) -> str:
    return "(price unknown)" if amount is None else f"${amount:.6f}"
