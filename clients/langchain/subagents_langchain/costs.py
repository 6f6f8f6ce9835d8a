"""What the calls of models cost that a turn makes beside its routing call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum, unique
from typing import Final

from langchain_core.messages import AIMessage

MILLION: Final = Decimal(1_000_000)


@unique
class Purpose(StrEnum):
    """What an extra call was for."""

    PRIOR_CONTEXT = "prior_context"
    """A summary for sub-agents that were not asked in the turn before."""
    COMPOSITION = "composition"
    """The answer out of the results."""
    FURTHER_CALLS = "further_calls"
    """A response that calls sub-agents again."""
    MISSING_INTENT = "missing_intent"
    """Asked once more, since fewer sub-agents were called than intents declared."""
    ACKNOWLEDGEMENT = "acknowledgement"
    """A judge's check of what the answer states to be missing."""
    COMPACTION = "compaction"
    """The rolling summary of a long conversation; made after the turn."""


@dataclass(frozen=True, slots=True)
class Price:
    """Of one model, in your currency per million tokens."""

    input_per_million: Decimal
    output_per_million: Decimal


@dataclass(frozen=True, slots=True)
class ExtraCall:
    """One call of a model beside the routing call.

    Attributes:
        purpose: what for.
        model: as the provider named it; empty if it did not.
        input_tokens, output_tokens: 0 if the provider reported none.
        cost: None if there is no price for the model, or no report.
    """

    purpose: Purpose
    model: str
    input_tokens: int
    output_tokens: int
    cost: Decimal | None


class Costs:
    """The extra calls of one turn.

    Args:
        prices: by the model's name; a name that a provider made longer (`small-2026-03`) has the price of `small`.
        listener: told of every call, e.g. to count it; should not raise.

    Source: PC1-NFR-7.
    """

    def __init__(self, prices: Mapping[str, Price], listener: Callable[[ExtraCall], None]) -> None:
        self.calls: list[ExtraCall] = []
        self._prices = prices
        self._listener = listener

    @property
    def total(self) -> Decimal:
        """What all calls cost for which there is a price."""
        return sum((one.cost for one in self.calls if one.cost is not None), Decimal(0))

    def add(self, purpose: Purpose, message: AIMessage) -> None:
        """Count one call, from what the provider reported with its response."""
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
