"""`python -m tests.simulation.rare`: finds the seeds of `RARE` again.

For each suite it plays what is always played; as long as a fault occurs too seldom, it goes on through the seeds and
keeps those in which such a fault occurs.
"""

from collections import Counter
from collections.abc import Sequence

from tests.simulation.finding import SEARCHED, seeds_of_defects
from tests.simulation.promises import SCHEDULES, missing
from tests.simulation.running import say
from tests.support.simulation.playing import ALL_SUITES, play


def rare(suite: str) -> Sequence[int]:
    """Return the seeds that a suite needs."""
    counted: Counter[str] = Counter()
    for seed in {*range(SCHEDULES[suite]), *seeds_of_defects(suite)}:
        counted.update(play(suite, seed).counted)
    kept = []
    for seed in range(SCHEDULES[suite], SEARCHED):
        lacking = missing(suite, counted)
        if not lacking:
            break
        found = play(suite, seed).counted
        if lacking.keys() & found.keys():
            kept.append(seed)
            counted.update(found)
    if lacking := missing(suite, counted):
        say(f"{suite}: too seldom: {', '.join(lacking)}")
    return kept


if __name__ == "__main__":
    say(*(f"{suite}: {rare(suite)}" for suite in ALL_SUITES))
