"""Measure what one PostgreSQL carries, directly and through PgBouncer: `make scale`.

    python -m scripts.scale [--sidecars N,N,...] [--stores N,N,...] [--ways direct,pooled] [--dispatches N]
        [--in-flight N] [--json]

Exit codes: 0 measured; 2 not measured: PostgreSQL or PgBouncer is not installed, or something failed. What is
measured, and how: docs/scale.md.
"""

import argparse
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import grpc
import uvloop
from rich.console import Console

from scripts.benchmark.clients import WrongAnswer
from scripts.benchmark.definitions import write_definitions
from scripts.benchmark.growth.copies import Copies, copies_of
from scripts.benchmark.growth.processes import Place
from scripts.benchmark.growth.records import opened_store, original
from scripts.benchmark.postgres import NOT_INSTALLED as NO_POSTGRES
from scripts.benchmark.postgres import Postgres, binaries, postgres
from scripts.benchmark.processes import ServerLost
from scripts.benchmark.scale.carried import Carried, Load, carried
from scripts.benchmark.scale.pooler import NOT_INSTALLED as NO_POOLER
from scripts.benchmark.scale.pooler import program, version
from scripts.benchmark.scale.report import as_json, show
from scripts.benchmark.sidecar_server import SQLITE
from subagents_errors import SubagentsError

MANY: Final = (1, 5, 10, 20)
WAYS: Final = ("direct", "pooled")
DISPATCHES: Final = 4000
"""In each measurement, over all sidecars."""
IN_FLIGHT: Final = 8
CONNECTIONS: Final = ("max_connections=400",)
"""Twenty sidecars have more than the 100 that a server lets in by default."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    given = _given(arguments)
    absent = missing(given.ways, server=binaries() is not None, pooler=program() is not None)
    if absent:
        print(f"not measured: {absent} (Debian packages postgresql and pgbouncer)", file=sys.stderr)
        return 2
    try:
        found = uvloop.run(_all(given))
    except (ServerLost, WrongAnswer, LookupError, SubagentsError, grpc.aio.AioRpcError) as problem:
        print(f"not measured: {problem}", file=sys.stderr)
        return 2
    around = {"PostgreSQL": str(binaries()).split("/")[-2], "pooler": version()}
    if given.json:
        print(json.dumps(as_json(found, around), indent=2))
    else:
        show(found, around, Console(width=None if sys.stdout.isatty() else 200))
    return 0


def missing(ways: Sequence[str], *, server: bool, pooler: bool) -> str:
    """Say what is not installed, of what these ways need; empty if nothing is missing."""
    if not server:
        return NO_POSTGRES
    return NO_POOLER if "pooled" in ways and not pooler else ""


async def _all(given: argparse.Namespace) -> Sequence[Carried]:
    with TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name)
        write_definitions(folder / "definitions")
        async with postgres(settings=CONNECTIONS) as server:
            assert server is not None  # noqa: S101  for the type checker: `main` has looked
            copies = await _copies(folder) if given.stores else None
            return [each async for each in _each(given, server, folder, copies)]


async def _each(
    given: argparse.Namespace, server: Postgres, folder: Path, copies: Copies | None
) -> AsyncIterator[Carried]:
    """Take turns between the ways: what disturbs one disturbs the other. Each load has a database of its own."""
    began = time.monotonic()
    for many, made in [*((each, None) for each in given.sidecars), *((each, copies) for each in given.stores)]:
        for each in given.ways:
            load = Load(many, given.dispatches, given.in_flight)
            yield _told(await carried(server, folder, load, pooled=each == "pooled", copies=made), began)


async def _copies(folder: Path) -> Copies:
    """Run one turn in a sidecar, to be copied."""
    turn_id, path = await original(Place(folder, folder / "definitions", None, lambda _: None))
    async with opened_store(path.parent, SQLITE) as record:
        return await copies_of(record.journal, turn_id)


def _told(one: Carried, began: float) -> Carried:
    pooled = "through PgBouncer" if one.pooled else "directly"
    done = f"{one.many} {one.what} {pooled}: {one.rate:.0f} dispatches a second"
    print(f"{time.monotonic() - began:5.0f} s {done}", file=sys.stderr, flush=True)
    return one


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make scale", description="What one PostgreSQL carries.")
    parser.add_argument("--sidecars", type=_steps, default=MANY, help="how many, with commas; empty: none")
    parser.add_argument("--stores", type=_steps, default=MANY, help="stores without sidecars, likewise")
    parser.add_argument("--ways", type=_ways, default=WAYS, help="direct, pooled, or both with a comma")
    parser.add_argument("--dispatches", type=int, default=DISPATCHES, help="in each measurement")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="of each sidecar or store")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args(arguments)


def _steps(text: str) -> Sequence[int]:
    try:
        return [int(each) for each in text.split(",") if each]
    except ValueError:
        raise argparse.ArgumentTypeError("numbers with commas between them") from None


def _ways(text: str) -> Sequence[str]:
    ways = text.split(",")
    if not set(ways) <= set(WAYS):
        raise argparse.ArgumentTypeError(f"only these: {', '.join(WAYS)}")
    return ways


if __name__ == "__main__":
    sys.exit(main())
