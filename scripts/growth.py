"""Measure what grows with use, and draw it: `make growth`.

    python -m scripts.growth [--only dispatches,definitions,turns,facts] [--dispatches N] [--definitions N,N,...]
        [--turns N,N,...] [--facts N,N,...] [--json] [--draw FOLDER [--note TEXT]]

Exit codes: 0 measured, whatever it shows; 2 not measured. What is measured, and how: docs/benchmarks.md.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import uvloop
from rich.console import Console

from scripts.benchmark.clients import WrongAnswer
from scripts.benchmark.definitions import write_definitions
from scripts.benchmark.growth import definitions, facts, turns
from scripts.benchmark.growth.curves import Curve
from scripts.benchmark.growth.definitions import over_definitions
from scripts.benchmark.growth.dispatches import over_dispatches
from scripts.benchmark.growth.facts import over_facts
from scripts.benchmark.growth.processes import Place
from scripts.benchmark.growth.report import as_json, draw, show
from scripts.benchmark.growth.turns import over_open_turns
from scripts.benchmark.processes import ServerLost
from scripts.benchmark.serving import pin

DISPATCHES: Final = 20_000
CURVES: Final = ("dispatches", "definitions", "turns", "facts")

Measured = Callable[[Place], Awaitable[Curve]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and draw; return the exit code."""
    given = _given(arguments)
    if not sys.platform.startswith("linux"):
        print("what a process uses is read from /proc, which only Linux has", file=sys.stderr)
        return 2
    cores = sorted(os.sched_getaffinity(0))
    server, client = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    pin(client)
    try:
        curves = uvloop.run(_curves(_wanted(given), server))
    except (ServerLost, WrongAnswer, LookupError) as problem:
        print(f"not measured: {problem}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps(as_json(curves), indent=2))
    else:
        show(curves, Console(width=None if sys.stdout.isatty() else 140))
    if given.draw is not None:
        for file in draw(curves, given.draw, given.note):
            print(f"drawn: {file}", file=sys.stderr)
    return 0


async def _curves(wanted: Mapping[str, Measured], server_cpu: int | None) -> Sequence[Curve]:
    curves = []
    for number, (name, measured) in enumerate(wanted.items(), 1):
        began = time.monotonic()
        with TemporaryDirectory(prefix="grow-") as folder:
            write_definitions(Path(folder) / "definitions")
            tell = partial(_tell, f"[{number}/{len(wanted)}] {name}: ", began)
            curves.append(await measured(Place(Path(folder), Path(folder) / "definitions", server_cpu, tell)))
    return curves


def _tell(before: str, began: float, what: str) -> None:
    print(f"{time.monotonic() - began:5.0f} s {before}{what}", file=sys.stderr, flush=True)


def _wanted(given: argparse.Namespace) -> Mapping[str, Measured]:
    every: Mapping[str, Measured] = {
        "dispatches": lambda place: over_dispatches(place, given.dispatches),
        "definitions": lambda place: over_definitions(place, given.definitions),
        "turns": lambda place: over_open_turns(place, given.turns),
        "facts": lambda place: over_facts(place, given.facts),
    }
    return {name: every[name] for name in CURVES if name in given.only}


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make growth", description="What grows with use.")
    parser.add_argument("--only", type=_names, default=CURVES, help=f"of {', '.join(CURVES)}; with commas")
    parser.add_argument("--dispatches", type=int, default=DISPATCHES)
    parser.add_argument("--definitions", type=_steps, default=definitions.STEPS, help="steps, with commas")
    parser.add_argument("--turns", type=_steps, default=turns.STEPS, help="open turns; steps, with commas")
    parser.add_argument("--facts", type=_steps, default=facts.STEPS, help="steps, with commas")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="write an SVG for each curve")
    parser.add_argument("--note", default="", help="written under each picture, e.g. that the machine was busy")
    return parser.parse_args(arguments)


def _names(text: str) -> Sequence[str]:
    names = text.split(",")
    if not set(names) <= set(CURVES):
        raise argparse.ArgumentTypeError(f"only these can be measured: {', '.join(CURVES)}")
    return names


def _steps(text: str) -> Sequence[int]:
    try:
        steps = [int(each) for each in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError("steps are numbers with commas between them") from None
    if steps != sorted(set(steps)) or steps[0] < 1:
        raise argparse.ArgumentTypeError("steps grow, from 1 on")
    return steps


if __name__ == "__main__":
    sys.exit(main())
