"""How much of a model's context window a prompt takes.

The count is an estimate: UTF-8 bytes / 4 unless a deployment plugs in its model's own tokeniser.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.cards.prompt import prefix_of
from sidecar.core.definitions.files.documents import Place
from sidecar.core.definitions.files.problems import Problem

TokenCounter: TypeAlias = Callable[[str], int]

WARNING_PERCENT: Final = 25
"""Source: PC1-NFR-4b."""
ERROR_PERCENT: Final = 50
"""Source: PC1-NFR-4c, DESIGN section 13."""
DESCRIPTION_TOKENS: Final = 400
"""Source: PC1-NFR-3a."""


def estimated_tokens(text: str) -> int:
    """Return UTF-8 bytes / 4, rounded up: near enough to warn by, and the same everywhere."""
    return -(-len(text.encode()) // 4)


class _EveryFlag:
    """Every flag on: the longest prompt the card can have."""

    def __contains__(self, flag: object) -> bool:
        return True


def prompt_tokens(card: Card, described: Iterable[str], count: TokenCounter) -> int:
    """Return the estimate of the longest prompt the card can have, every flag on.

    Args:
        card: whose prompt.
        described: descriptions of the sub-agents the model is offered as tools.
        count: tokens of one text.
    """
    texts = [prefix_of(card.blocks, _EveryFlag()), *(tool.description for tool in card.tools), *described]
    return sum(count(text) for text in texts)


def weigh(place: Place, tokens: int, window: int) -> Problem | None:
    """Return the problem with a prompt of `tokens` in a context window of `window` tokens, or None.

    Source: PC1-NFR-4.
    """
    if tokens * 100 > window * ERROR_PERCENT:
        return place.error(_too_long(tokens, ERROR_PERCENT, window))
    if tokens * 100 > window * WARNING_PERCENT:
        return place.warning(_too_long(tokens, WARNING_PERCENT, window))
    return None


def _too_long(tokens: int, percent: int, window: int) -> str:
    return f"the prompt takes an estimated {tokens} tokens, over {percent} % of the context window of {window}"


def weigh_description(place: Place, description: str, count: TokenCounter) -> Problem | None:
    """Return a warning for a description that crowds the orchestrator's prompt, or None. Source: PC1-NFR-3a."""
    tokens = count(description)
    if tokens <= DESCRIPTION_TOKENS:
        return None
    text = f"takes an estimated {tokens} tokens of every orchestrator's prompt; keep it below {DESCRIPTION_TOKENS}"
    return place.at("description").warning(text)
