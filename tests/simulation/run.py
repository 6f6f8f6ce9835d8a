"""Simulate at length: `python -m tests.simulation.run --suite all --schedules 10000`.

Ends with 1 if a promise was broken, and says how to replay it. The base of the fresh seeds is printed; `--base` or the
environment variable SIM_SEED sets it.
"""

import argparse
import os
import secrets
import sys
import time

from tests.simulation.running import run_seeds, run_suites, say
from tests.support.simulation.playing import ALL_SUITES

SHOWN = 20


def fresh_base() -> int:
    """Return where fresh seeds begin: SIM_SEED if it is set, else anywhere above the fixed ones."""
    return int(os.environ.get("SIM_SEED") or 1_000_000 + secrets.randbelow(10**9))


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=__doc__)
    parser.add_argument("--suite", choices=[*ALL_SUITES, "all"], default="all")
    parser.add_argument("--schedules", type=int, default=2000, help="of each suite")
    parser.add_argument("--base", type=int, default=None, help="first seed; by default fresh ones")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", action="store_true", help="stop at the first broken promise")
    parser.add_argument("--until", default="", metavar="PROMISE", help="with --first: only this one stops")
    parser.add_argument("--begin-with", type=int, nargs="*", default=[], metavar="SEED", help="with --first")
    chosen = parser.parse_args()
    base = fresh_base() if chosen.base is None else chosen.base
    suites = list(ALL_SUITES) if chosen.suite == "all" else [chosen.suite]
    began = time.monotonic()
    seeds = range(base, base + chosen.schedules)
    if chosen.first:
        reports = {suite: run_seeds(suite, (*chosen.begin_with, *seeds), until=chosen.until) for suite in suites}
    else:
        reports = run_suites([(suite, seeds) for suite in suites], chosen.jobs)
    broken = [each for report in reports.values() for each in report.broken]
    for suite, report in reports.items():
        say(f"== {suite}: seeds from {base}; {report.table()}")
    for each in broken[:SHOWN] if not chosen.first else broken[-SHOWN:]:
        say(f"BROKEN {each}")
    say(f"{len(broken)} broken promises, {time.monotonic() - began:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
