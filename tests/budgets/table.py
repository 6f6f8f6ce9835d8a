"""The budgets: what each counts, and what it shall become. What it may be is in `counted.json`."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from scripts.benchmark.definitions import MOST_CHILDREN
from scripts.benchmark.sidecar_server import MEMORY, SQLITE
from tests.budgets.cohort_check import CHECKED
from tests.budgets.meter import Spot
from tests.budgets.scenarios import AT_ONCE, COHORT_CHECK, Counted

FURTHER: Final = "further child"
CHILDREN: Final = MOST_CHILDREN - 1


@dataclass(frozen=True, slots=True)
class Budget:
    """A number that must not rise.

    Attributes:
        name: of the scenario; `eight` minus `one` is what seven further children add.
        record: `memory` or `sqlite`.
        figure: one of `Counts`.
        per: what the counted total is divided by to be shown.
        gate: what it is held to per unit, whatever was counted last; None: to that alone.
    """

    name: str
    record: str
    figure: str
    per: int = 1
    gate: int | None = None

    def __str__(self) -> str:
        """Name it, as in `counted.json`."""
        return f"{self.name}, {self.record}: {self.figure}"

    def of(self, counted: Counted) -> Counter[Spot]:
        """Return what was counted, by place and detail."""
        if self.name.startswith(FURTHER):
            rest = self.name.removeprefix(FURTHER)
            more = Counter(counted[f"eight{rest}", self.record][self.figure])
            more.subtract(counted[f"one{rest}", self.record][self.figure])
            return more
        return counted[self.name, self.record][self.figure]


TABLE: Final = (
    Budget("one", MEMORY, "calls", gate=450),
    Budget("one", MEMORY, "modules"),
    Budget("one", MEMORY, "switches"),
    Budget("one", MEMORY, "passes"),
    Budget("one", MEMORY, "messages"),
    Budget("eight", MEMORY, "messages"),
    Budget(FURTHER, MEMORY, "calls", CHILDREN, gate=150),
    Budget("bind", MEMORY, "calls"),
    Budget("end", MEMORY, "calls"),
    Budget("one", SQLITE, "passes"),
    Budget("one, queued", SQLITE, "calls", AT_ONCE),
    Budget("one, queued", SQLITE, "messages", AT_ONCE),
    Budget("one, queued", SQLITE, "statements", AT_ONCE, gate=3),
    Budget("one, queued", SQLITE, "writes", AT_ONCE),
    Budget("one, queued", SQLITE, "bytes", AT_ONCE, gate=6144),
    Budget("one, queued", SQLITE, "pages"),
    Budget("one, queued", SQLITE, "syncs", AT_ONCE),
    Budget("eight, queued", SQLITE, "bytes", AT_ONCE, gate=24 * 1024),
    Budget(f"{FURTHER}, queued", SQLITE, "calls", AT_ONCE * CHILDREN),
    Budget(f"{FURTHER}, queued", SQLITE, "statements", AT_ONCE * CHILDREN),
    Budget(f"{FURTHER}, queued", SQLITE, "bytes", AT_ONCE * CHILDREN),
    Budget("one, over a lane", MEMORY, "calls", AT_ONCE),
    Budget("one, over a lane", SQLITE, "calls", AT_ONCE),
    Budget("one, over a lane", SQLITE, "messages", AT_ONCE),
    Budget("one, by the client of a lane", MEMORY, "calls", AT_ONCE),
    Budget("one, by the client of a lane", MEMORY, "messages", AT_ONCE),
    *(Budget("bind", SQLITE, figure) for figure in ("calls", "statements")),
    *(Budget("end", SQLITE, figure) for figure in ("calls", "statements", "writes", "bytes", "syncs")),
    *(Budget("projected", SQLITE, figure, AT_ONCE) for figure in ("calls", "statements", "writes", "bytes", "syncs")),
    Budget(COHORT_CHECK, MEMORY, "calls", CHECKED),
)
