"""Exact costs of tokens: whole trillionths of a US dollar, never a binary fraction.

A price has at most six decimals of US dollars per million tokens, so one token costs a whole number of units. If a
price is unknown, or a runner reports no tokens, the cost is unknown (None), which is not zero.
"""

from decimal import Decimal
from typing import Final

from sidecar.core.definitions.cards.card import ModelEntry
from sidecar.core.dispatching.outcomes import Usage

CURRENCY: Final = "USD"
DECIMALS: Final = 12
"""Decimals of a US dollar; one unit is the last of them."""
UNITS_OF_USD: Final = 10**DECIMALS
UNITS_OF_PRICE: Final = 6
"""Decimals that convert a price for a million tokens into units for one token."""


def units(usd: float | Decimal) -> int:
    """Return an amount of US dollars in units.

    A number is converted from its decimal form, and cut after twelve decimals.
    """
    # By the decimal text, as in `cost_of`.
    return int(Decimal(repr(usd) if isinstance(usd, float) else usd).scaleb(DECIMALS))


def in_usd(amount: int) -> str:
    """Return units as US dollars, exactly, without trailing zeros, with at least two decimals."""
    whole, rest = divmod(abs(amount), UNITS_OF_USD)
    decimals = f"{rest:0{DECIMALS}d}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}{whole}.{decimals}"


def cost_of(usage: Usage, model: ModelEntry) -> int | None:
    """Return the cost of tokens in units; None: a required price is unknown.

    Tokens from a provider's cache count at the full input price, so that the cost is never too low.
    """
    cost = 0
    parts = (usage.input_tokens, model.price_per_million_input), (usage.output_tokens, model.price_per_million_output)
    for tokens, price in parts:
        # A part without tokens costs nothing, so its price need not be known.
        if not tokens:
            continue
        if price is None:
            return None
        # By the decimal text of the price: the binary fraction of a float would add up to wrong amounts.
        cost += tokens * int(Decimal(repr(price)).scaleb(UNITS_OF_PRICE))
    return cost


def is_priced(model: ModelEntry) -> bool:
    """Return whether both prices of a model are known."""
    return model.price_per_million_input is not None and model.price_per_million_output is not None
