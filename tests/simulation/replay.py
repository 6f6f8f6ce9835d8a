"""Run one seed again and show what happened: `python -m tests.simulation.replay --suite turns --seed 123`."""

import argparse
import sys
from itertools import product

from tests.simulation.running import say
from tests.support.simulation.playing import ALL_SUITES, plan_of, play


def main() -> int:
    """Show the schedule, each step, the digest of them all, and the broken promises."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replay", description=__doc__)
    parser.add_argument("--suite", choices=ALL_SUITES, required=True, nargs="+")
    parser.add_argument("--seed", type=int, nargs="+", required=True)
    parser.add_argument("--digest", action="store_true", help="the digest only")
    chosen = parser.parse_args()
    broken = 0
    for suite, seed in product(chosen.suite, chosen.seed):
        played = play(suite, seed, readable=not chosen.digest)
        if chosen.digest:
            say(played.trace.digest())
            continue
        say(*plan_of(suite, seed), *(played.trace.lines or []))
        broken += len(played.broken)
        say(*(f"BROKEN {promise}: {problem}" for promise, problem in played.broken))
        say(f"{played.steps} steps, digest {played.trace.digest()}, {len(played.broken)} broken promises")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
