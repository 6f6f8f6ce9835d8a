"""What a target does in this tree, as ratios to what it does in another revision in the same rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scripts.benchmark.plan import Plan
from scripts.benchmark.rounds import Series
from scripts.benchmark.targets import at

FIGURES: Final = ("rate", "p50", "p99", "cpu")
"""Of a `Sample`."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One target, measured in both revisions.

    Attributes:
        ratios: by figure, one for each round: this tree's, divided by the other's.
    """

    target: str
    in_flight: int
    ratios: Mapping[str, Sequence[float]]


def compared(series: Series, plan: Plan) -> Sequence[Compared]:
    """Return what was measured in both, in the order in which it was; nothing if there is one revision only.

    Figures of the same round are compared: what disturbs a round disturbs both.
    """
    if plan.against is None:
        return ()
    found: list[Compared] = []
    for (target, in_flight), samples in series.items():
        others = series.get((at(target, plan.against.name), in_flight))
        if others is not None:
            ratios = {
                figure: [
                    getattr(one, figure) / getattr(other, figure) for one, other in zip(samples, others, strict=True)
                ]
                for figure in FIGURES
            }
            found.append(Compared(target, in_flight, ratios))
    return found
