"""What the budgets may be: what was counted last, by place, so that a test can say where a rise comes from."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.budgets.meter import Spot
from tests.budgets.scenarios import Counted
from tests.budgets.table import TABLE, Budget

KEPT: Final = Path(__file__).with_name("counted.json")
KEEP: Final = "python -m tests.budgets --keep"
SHOWN_PLACES: Final = 6
SHOWN_DETAILS: Final = 4

Places = Mapping[str, int]


def kept(file: Path = KEPT) -> Mapping[str, Places]:
    """Return the ceilings: by budget, then by place."""
    found: Mapping[str, Places] = json.loads(file.read_text(encoding="utf-8"))
    return found


def keep(counted: Counted, file: Path = KEPT) -> None:
    """Write what was counted as the new ceilings."""
    found = {str(budget): dict(sorted(by_place(budget.of(counted)).items())) for budget in TABLE}
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def by_place(found: Counter[Spot]) -> Counter[str]:
    """Leave the details out."""
    places: Counter[str] = Counter()
    for spot, count in found.items():
        places[spot.place] += count
    return places


def risen(budget: Budget, found: Counter[Spot], ceiling: Places) -> str:
    """Say by how much a budget is exceeded and where; empty: it is not."""
    total, most = found.total(), sum(ceiling.values())
    if total <= most:
        return ""
    per = f" (in {budget.per})" if budget.per > 1 else ""
    return "\n".join(
        (
            f"{budget}: {total}{per}, {total - most} more than the ceiling of {most}",
            *_rises(found, ceiling),
            f"If that is worth it, write the ceilings again: {KEEP}",
        )
    )


def _rises(found: Counter[Spot], ceiling: Places) -> list[str]:
    places = by_place(found)
    more = Counter({place: count - ceiling.get(place, 0) for place, count in places.items()})
    most = [(place, count) for place, count in more.most_common(SHOWN_PLACES) if count > 0]
    return [f"  {count:+} {place}{_details(found, place)}" for place, count in most]


def _details(found: Counter[Spot], place: str) -> str:
    """Name the functions of a module that are called most."""
    there = Counter({spot.detail: count for spot, count in found.items() if spot.place == place and spot.detail})
    named = ", ".join(f"{detail} {count}" for detail, count in there.most_common(SHOWN_DETAILS))
    return f": {named}" if named else ""
