"""The share of a model's context window that a prompt and each tool take.

The count is an estimate: UTF-8 bytes / 4. The tokeniser of a model would be exact, but differs between models and
versions, and the checks only need to find prompts that are far too long. The tokens of a tool are those of its name,
description and JSON schema. Text that a model provider adds to a request is not counted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.cards.prompt import prefix_of
from sidecar.core.definitions.files.documents import SourceLocation
from sidecar.core.definitions.files.problems import Problem, quoted
from sidecar.core.json_schemas import canonical_text

TokenCounter: TypeAlias = Callable[[str], int]

WARNING_PERCENT: Final = 25
"""Percent of the context window; a longer prompt is a warning. Source: PC1-NFR-4b."""
ERROR_PERCENT: Final = 50
"""Percent of the context window; a longer prompt is an error. Source: PC1-NFR-4c, DESIGN section 13."""
DESCRIPTION_TOKENS: Final = 400
"""A longer description is a warning. Source: PC1-NFR-3a."""
SUB_AGENTS_BEFORE_WARNING: Final = 7
"""The most sub-agents of an orchestrator without a warning. Source: PC1-NFR-3b, TN-50."""


def estimated_tokens(text: str) -> int:
    """Return UTF-8 bytes / 4, rounded up."""
    # Bytes and not characters: texts in other scripts take more tokens for each character.
    return -(-len(text.encode()) // 4)


class _EveryFlag:
    """A set of flags that contains every flag, for the longest possible prompt of a card."""

    def __contains__(self, flag: object) -> bool:
        return True


def tool_tokens(name: str, description: str, schema: Mapping[str, Any], count: TokenCounter) -> int:
    """Return the estimated tokens that one tool adds to every request to a model that can call it."""
    # The estimate is for warnings; providers count tools in their own ways.
    return count(name) + count(description) + count(canonical_text(schema))


def prompt_tokens(card: Card, tools: Mapping[str, int], count: TokenCounter) -> int:
    """Return the estimated tokens of a card's longest prompt, with every flag on.

    Args:
        card: the card of the agent.
        tools: the tokens of each tool that the model can call, including sub-agents.
        count: tokens of one text.
    """
    # The longest prompt: flags are switched later, without another check.
    return count(prefix_of(card.blocks, _EveryFlag())) + sum(tools.values())


def weigh_sub_agents(place: SourceLocation, listed: Sequence[tuple[str, int]], most: int) -> Iterator[Problem]:
    """Yield a warning with its cost if many sub-agents are listed, and one for each that is listed beyond `most`.

    Args:
        place: of the list.
        listed: slots in order, each with the tokens of its tool.
        most: the number of entries at the beginning of the list that the model can call; `definitions.max_sub_agents`.

    Source: PC1-NFR-3b, PC1-D-58, TN-50.
    """
    # Only these are offered, so only they cost anything.
    offered = [tokens for _, tokens in listed[:most]]
    if len(offered) > SUB_AGENTS_BEFORE_WARNING:
        yield place.warning(
            f"offers {len(offered)} sub-agents, whose tools take an estimated {sum(offered)} tokens of each call of its"
            f" model; above {SUB_AGENTS_BEFORE_WARNING}, keep descriptions tight"
        )
    for index, (slot, tokens) in enumerate(listed[most:], most):
        text = (
            f"{quoted(slot)} is beyond the {most} that definitions.max_sub_agents allows, and no turn offers it;"
            f" take it off the list, or raise the setting for an estimated {tokens} tokens of each call"
        )
        yield place.at(index).warning(text, key=slot)


def weigh(place: SourceLocation, tokens: int, window: int) -> Problem | None:
    """Return the problem with a prompt of `tokens` in a context window of `window` tokens, or None.

    Source: PC1-NFR-4.
    """
    # In integers: a percentage as a float could round a limit case differently on two machines.
    if tokens * 100 > window * ERROR_PERCENT:
        return place.error(_too_long(tokens, ERROR_PERCENT, window))
    if tokens * 100 > window * WARNING_PERCENT:
        return place.warning(_too_long(tokens, WARNING_PERCENT, window))
    return None


def _too_long(tokens: int, percent: int, window: int) -> str:
    return f"the prompt takes an estimated {tokens} tokens, over {percent} % of the context window of {window}"


def weigh_description(place: SourceLocation, description: str, count: TokenCounter) -> Problem | None:
    """Return a warning for a description that is too long for the orchestrator's prompt, or None (PC1-NFR-3a)."""
    tokens = count(description)
    if tokens <= DESCRIPTION_TOKENS:
        return None
    text = f"takes an estimated {tokens} tokens of every orchestrator's prompt; keep it below {DESCRIPTION_TOKENS}"
    return place.at("description").warning(text)
