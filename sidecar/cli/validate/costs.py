"""Formats what `sidecar validate` prints about tokens and, with `--costs`, about the minimum cost of a turn."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.cards.costs import AgentCost, TurnCost, agent_cost, turn_cost
from sidecar.core.definitions.resolve import LoadedCatalogue
from sidecar.core.identifiers import DefinitionId, tool_name_of

BASIS: Final = (
    "costs of a turn, estimated: each model is asked twice, fixed prompts only, output as far as max_output_tokens"
    " bounds it"
)
"""The head line of the costs: the assumptions under which they hold."""
TOKENS: Final = "an estimate: bytes / 4 of name, description and schema"
"""How the tokens of a tool are estimated: tokenizers differ between models, and a check must need no model."""
NUMBERS: Final = (8, 10, 20)
"""Numbers of sub-agents whose cost is shown for comparison with the present number."""


def tool_lines(loaded: LoadedCatalogue) -> Iterator[str]:
    """Yield two lines for each agent that has sub-agents: what its tools cost in each call of its model, in tokens.

    The second line says what more sub-agents of the present average size would cost.
    """
    cards = () if loaded.catalogue is None else loaded.catalogue.cards.values()
    for card in cards:
        if sub_agents := sub_agent_tokens(card, loaded):
            of_tools = ", ".join(f"{name} {tokens}" for name, tokens in loaded.tool_tokens[card.definition.id].items())
            more = ", ".join(f"with {number}, {tokens}" for number, tokens in scaled(sub_agents).items())
            those = "the sub-agent" if len(sub_agents) == 1 else f"the {len(sub_agents)} sub-agents"
            yield f"{card.definition.id}: tokens of each call for its tools ({TOKENS}): {of_tools}"
            yield f"  {those} of them: {sum(sub_agents)} tokens; more sub-agents of this size: {more}"


def sub_agent_tokens(card: Card, loaded: LoadedCatalogue) -> list[int]:
    """Return the estimated tokens of each sub-agent that the model of this agent gets as a tool."""
    names = {tool_name_of(slot) for slot in card.definition.sub_agents}
    return [tokens for name, tokens in loaded.tool_tokens[card.definition.id].items() if name in names]


def scaled(tokens: Sequence[int]) -> dict[int, int]:
    """Return the total of other numbers of sub-agents, if each had the average of these tokens. `tokens`: not empty."""
    return {number: round(number * sum(tokens) / len(tokens)) for number in NUMBERS}


def agent_costs(catalogue: Catalogue, prompt_tokens: Mapping[DefinitionId, int]) -> dict[DefinitionId, AgentCost]:
    """Return the minimum tokens and cost of each agent in a turn, in the order of the catalogue.

    Args:
        catalogue: all agents.
        prompt_tokens: the tokens of each agent's fixed prompt.
    """
    return {name: agent_cost(card, prompt_tokens[name]) for name, card in catalogue.cards.items()}


def cost_lines(catalogue: Catalogue, prompt_tokens: Mapping[DefinitionId, int]) -> Iterator[str]:
    """Yield the output of `--costs`: a line for each agent, then a line for each orchestrator about its turns."""
    costs = agent_costs(catalogue, prompt_tokens)
    yield BASIS
    for name, card in catalogue.cards.items():
        yield _agent_line(card, costs[name])
    for card in catalogue.cards.values():
        if card.definition.is_orchestrator:
            turn = turn_cost(card, catalogue, costs)
            # From no call to a call of every sub-agent: a turn lies between the two.
            asking = f"{_usd(turn.with_all)} asking {len(card.definition.sub_agents)}"
            yield f"  a turn of {card.definition.id}: {_usd(turn.without_calls)} alone, {asking}"


def cost_object(card: Card, catalogue: Catalogue, costs: Mapping[DefinitionId, AgentCost]) -> dict[str, Any]:
    """Return the costs of one agent as JSON; only an orchestrator has `turn`."""
    turn: TurnCost | None = turn_cost(card, catalogue, costs) if card.definition.is_orchestrator else None
    return asdict(costs[card.definition.id]) | ({} if turn is None else {"turn": asdict(turn)})


def _agent_line(card: Card, cost: AgentCost) -> str:
    prompt = f"{cost.prompt_tokens} tokens of prompt ({cost.window_percent:g} % of {card.model.id}'s window)"
    written = "" if cost.output_tokens is None else f", at most {cost.output_tokens} of output {_usd(cost.output_usd)}"
    return f"  {card.definition.id}: {prompt} {_usd(cost.input_usd)}{written}"


def _usd(amount: float | None) -> str:
    # Six decimals: a single call often costs less than a hundredth of a cent.
    return "(price unknown)" if amount is None else f"${amount:.6f}"
