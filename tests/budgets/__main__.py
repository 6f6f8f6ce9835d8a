"""Prints the budgets; with `--keep`, writes what is counted as the new ceilings.

python -m tests.budgets [--keep | --raw [SCENARIO/RECORD ...]]
"""

import argparse
import pickle
import sys
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.budgets.ceilings import keep, kept
from tests.budgets.scenarios import SCENARIOS, Counted, counted
from tests.budgets.table import TABLE

LEAST_PYTHON: Final = (3, 11)


def main() -> None:
    """Count, and print or keep."""
    parser = argparse.ArgumentParser(prog="python -m tests.budgets")
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--keep", action="store_true", help="write what is counted as the new ceilings")
    does.add_argument("--raw", nargs="*", help="give a test the counts of scenarios such as `one/memory`; default: all")
    given = parser.parse_args()
    if given.keep and sys.version_info[:2] != LEAST_PYTHON:
        parser.error("Python 3.11 keeps the ceilings: later versions make fewer calls, and are held to the same")
    found = counted([where for where in SCENARIOS if not given.raw or "/".join(where) in given.raw])
    if given.raw is not None:
        sys.stdout.buffer.write(pickle.dumps(found))
        return
    if given.keep:
        keep(found)
    Console().print(_table(found))


def _table(found: Counted) -> Table:
    ceilings, table = kept(), Table()
    for heading in ("scenario", "record", "figure", "counted", "ceiling", "gate"):
        table.add_column(heading, justify="left" if heading in {"scenario", "record", "figure"} else "right")
    for budget in TABLE:
        most = sum(ceilings.get(str(budget), {}).values()) / budget.per
        shown = f"{budget.of(found).total() / budget.per:.1f}", f"{most:.1f}", str(budget.gate or "")
        table.add_row(budget.name, budget.record, budget.figure, *shown)
    return table


if __name__ == "__main__":
    main()
