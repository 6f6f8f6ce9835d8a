"""Compare the sidecar with a bare gRPC server of the same bytes and with LangGraph, on this machine: `make bench`.

    python -m scripts.bench [--rows 7,8,13] [--rounds N] [--again N] [--against REV] [--no-databases] [--json]
        [--profile FILE]

Exit codes: 0 the run is valid, whatever it shows; 1 the same server measured twice differed by more than a tenth, so
that what is printed is marked void; 2 the bench could not be carried out. What is measured, and how:
docs/benchmarks.md.
"""

import argparse
import json
import os
import pstats
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console

from scripts.benchmark.clients import WrongAnswer
from scripts.benchmark.plan import Plan
from scripts.benchmark.processes import REPOSITORY, ServerLost
from scripts.benchmark.report import as_json, show
from scripts.benchmark.revisions import Revision, RevisionProblem, checked_out
from scripts.benchmark.rounds import A_A_TOLERANCE, Series, run, twins_agree
from scripts.benchmark.serving import pin
from scripts.benchmark.targets import ROWS

LEAST_ROUNDS: Final = 6
"""With fewer, a difference of a tenth is noise."""
ROUNDS: Final = 8
SHOWN: Final = 40
"""Lines of a profile."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench and return the exit code."""
    given = _given(arguments)
    if not sys.platform.startswith("linux"):
        print("the bench reads the CPU clock of other processes, which only Linux has", file=sys.stderr)
        return 2
    try:
        with ExitStack() as opened:
            against = opened.enter_context(checked_out(given.against, REPOSITORY)) if given.against else None
            plan = _plan(given, against)
            pin(plan.client_cpu)
            return _measured(plan, given.again, as_text=not given.json)
    except (ServerLost, WrongAnswer, RevisionProblem) as problem:
        print(f"not measured: {problem}", file=sys.stderr)
        return 2


def _measured(plan: Plan, again: int, *, as_text: bool) -> int:
    """Measure until a run is valid, `again` times more at most; print the last run and return the exit code."""
    for left in range(again, -1, -1):
        series = uvloop.run(run(plan))
        valid, ratios = twins_agree(series)
        if not valid:
            worst = max(ratios.values(), key=lambda ratio: abs(ratio - 1))
            print(
                f"void: the same server twice differed by {abs(worst - 1):.0%}, more than {A_A_TOLERANCE:.0%}; "
                "something else uses this machine",
                file=sys.stderr,
            )
        if valid or not left:
            _print(series, plan, as_text=as_text)
            return 0 if valid else 1
    return 1


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="The sidecar beside a bare gRPC stream.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"at least {LEAST_ROUNDS} to say anything")
    parser.add_argument("--rows", type=_rows, default=ROWS, help="of DESIGN section 14, with commas; default: all")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of requests in a round")
    parser.add_argument("--against", metavar="REV", help="a revision, measured in the same rounds")
    parser.add_argument("--again", type=int, default=0, help="how often to try again after a void run")
    parser.add_argument("--no-databases", action="store_true", help="leave out SQLite and PostgreSQL, to be quicker")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--profile", type=Path, help="profile the sidecar into this file; its numbers mean nothing then"
    )
    parser.add_argument("--twin-delay", type=float, default=0.0, help="seconds; plants a difference, to see it found")
    return parser.parse_args(arguments)


def _plan(given: argparse.Namespace, against: Revision | None) -> Plan:
    """Give server and client a core each, if there are two."""
    cores = sorted(os.sched_getaffinity(0))
    server, client = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    return Plan(
        rounds=given.rounds,
        share=given.share,
        server_cpu=server,
        client_cpu=client,
        twin_delay=given.twin_delay,
        profile=given.profile and given.profile.absolute(),
        databases=not given.no_databases,
        against=against,
        rows=given.rows,
    )


def _rows(text: str) -> frozenset[int]:
    known = ", ".join(map(str, sorted(ROWS)))
    try:
        rows = frozenset(int(each) for each in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"rows are numbers with commas between them, of: {known}") from None
    if not rows <= ROWS:
        raise argparse.ArgumentTypeError(f"only these rows can be measured: {known}")
    return rows


def _print(series: Series, plan: Plan, *, as_text: bool) -> None:
    if as_text:
        show(series, plan, Console(width=None if sys.stdout.isatty() else 120))
    else:
        print(json.dumps(as_json(series, plan), indent=2))
    if plan.profile is not None:
        pstats.Stats(str(plan.profile)).sort_stats("tottime").print_stats(SHOWN)
    if plan.rounds < LEAST_ROUNDS:
        print(f"only {plan.rounds} rounds: nothing can be concluded from fewer than {LEAST_ROUNDS}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
