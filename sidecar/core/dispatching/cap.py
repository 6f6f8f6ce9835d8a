"""The fan-out cap: the limit of sub-agents that run at the same time in a turn."""

from collections.abc import Sequence
from enum import StrEnum, unique
from typing import TypeVar

Call = TypeVar("Call")


@unique
class CapBehaviour(StrEnum):
    """How the number of calls of a response compares with the free places. Source: PC2-FR-15d."""

    WITHIN = "within"
    AT = "at"
    OVER = "over"


def split_at_cap(calls: Sequence[Call], places: int) -> tuple[Sequence[Call], Sequence[Call]]:
    """Split the calls of one model response into those that run and those that are dropped.

    Args:
        calls: in the order the model emitted them; may be empty; a sub-agent may occur twice.
        places: the cap less the calls that already run in the turn; 0 or more.

    Returns:
        (run, dropped), each in emission order; together they are exactly `calls`.

    Raises:
        ValueError: `places` is negative.

    Source: PC2-FR-7c, PC2-AC-4a, TN-18.
    """
    if places < 0:
        raise ValueError(f"places must not be negative, was {places}")
    return calls[:places], calls[places:]


def cap_behaviour(emitted: int, places: int) -> CapBehaviour:
    """Return how `emitted` calls compare with `places`."""
    if emitted > places:
        return CapBehaviour.OVER
    return CapBehaviour.AT if emitted == places else CapBehaviour.WITHIN


def worst(behaviours: Sequence[CapBehaviour]) -> CapBehaviour:
    """Return the most severe of several; `WITHIN` for none (TN-35)."""
    if CapBehaviour.OVER in behaviours:
        return CapBehaviour.OVER
    return CapBehaviour.AT if CapBehaviour.AT in behaviours else CapBehaviour.WITHIN
