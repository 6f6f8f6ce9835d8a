"""The extra model calls of a turn, i.e. all calls after its routing call, and their cost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum, unique
from typing import Final

from langchain_core.messages import AIMessage

MILLION: Final = Decimal(1_000_000)


@unique
class Purpose(StrEnum):
    """The purpose of an extra model call."""

    PRIOR_CONTEXT = "prior_context"
    """Writes a summary for sub-agents that the previous dispatching turn did not call."""
    COMPOSITION = "composition"
    """Composes the answer from the results."""
    FURTHER_CALLS = "further_calls"
    """Calls sub-agents again."""
    MISSING_INTENT = "missing_intent"
    """Lets the model call the missing sub-agents, because it declared more intents than it called sub-agents."""
    ACKNOWLEDGEMENT = "acknowledgement"
    """Lets a judge check which missing calls the answer mentions."""
    COMPACTION = "compaction"
    """Writes the rolling summary of a long conversation, after the turn."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model's tokens.

    Attributes:
        input_per_million: price of a million input tokens, in a currency of your choice.
        output_per_million: price of a million output tokens, in this currency.
    """

    input_per_million: Decimal
    output_per_million: Decimal


@dataclass(frozen=True, slots=True)
class ExtraCall:
    """One extra model call.

    Attributes:
        purpose: the purpose of the call.
        model: name of the model in the provider's response; empty if it has none.
        input_tokens: tokens that the model read; 0 if the provider reported none.
        output_tokens: tokens that the model wrote; 0 if the provider reported none.
        cost: cost of the call; None if the model has no price, or the provider reported no tokens.
    """

    purpose: Purpose
    model: str
    input_tokens: int
    output_tokens: int
    cost: Decimal | None


class Costs:
    """The extra calls of one turn.

    Args:
        prices: model name to price. A longer name in a response, such as `small-2026-03`, has the price of `small`.
        listener: called with every extra call, e.g. to count it; should not raise.

    Source: PC1-NFR-7.
    """

    def __init__(self, prices: Mapping[str, Price], listener: Callable[[ExtraCall], None]) -> None:
        self.calls: list[ExtraCall] = []
        self._prices = prices
        self._listener = listener

    @property
    def total(self) -> Decimal:
        """The sum of all known costs."""
        return sum((one.cost for one in self.calls if one.cost is not None), Decimal(0))

    def add(self, purpose: Purpose, message: AIMessage) -> None:
        """Add the call that returned `message`, with the tokens that the provider reported."""
        name = str(message.response_metadata.get("model_name") or "")
        usage = message.usage_metadata
        inward, outward = (usage["input_tokens"], usage["output_tokens"]) if usage else (0, 0)
        price = self._price(name) if usage else None
        cost = (price.input_per_million * inward + price.output_per_million * outward) / MILLION if price else None
        call = ExtraCall(purpose, name, inward, outward, cost)
        self.calls.append(call)
        self._listener(call)

    def _price(self, name: str) -> Price | None:
        fitting = [known for known in self._prices if name == known or name.startswith(f"{known}-")]
        return self._prices[max(fitting, key=len)] if fitting else None
