"""The rows of the session lane, as ratios of one run.

    python -m scripts.benchmark.lane_rows [--rounds N] [--share S] [--record memory] [--json]

A bare stream twice (the A/A pair), a bare bind, `ToolNode`, and a sidecar whose record is in SQLite unless it is said
otherwise, which is asked over plain RPCs and over one lane. Each has its turn in every round.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvloop

from scripts.benchmark.bare_server import write_answers
from scripts.benchmark.clients import BareClient, SidecarClient, turn_request
from scripts.benchmark.definitions import INSTANT, MOST_CHILDREN, SLEEP_SECONDS, SLEEPING, write_definitions
from scripts.benchmark.lane_client import LaneClient, lane_to
from scripts.benchmark.lane_crowds import bytes_of_a_lane, client_that_stops_reading
from scripts.benchmark.load import Call, Sample, measure
from scripts.benchmark.peers import INSTANT_NODE, TOOL_NODE, langgraph
from scripts.benchmark.processes import Server, running
from scripts.benchmark.sidecar_server import SQLITE, secret_file

ROUNDS: Final = 8
MANY, MORE = 16, 64
IDLE_LANES: Final = 1000
CONNECTIONS: Final = 4
TOLERANCE: Final = 0.10
Series = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """One row.

    Attributes:
        met: whether `value` keeps to `aim`; None: nothing was asked for.
    """

    name: str
    value: float
    aim: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Around:
    """What is measured."""

    sidecar: Server
    socket: Path
    secret: str
    plain: SidecarClient
    lane: LaneClient
    bare: Server
    twin: Server


Take = Callable[[], Awaitable[Sample]]


def takes(around: Around, share: float) -> Mapping[str, Take]:
    """Return what has its turn in a round, by name."""
    bare, twin = BareClient(around.bare.channel, around.plain.metadata), BareClient(around.twin.channel)

    def of(
        server: Server, call: Call, in_flight: int, usual: int, prepare: Callable[[int], Awaitable[Sequence[Any]]]
    ) -> Take:
        async def take() -> Sample:
            sample = await measure(server, call, await prepare(max(in_flight, round(usual * share))), in_flight)
            await around.plain.end_all()
            await around.lane.end_all()
            return sample

        return take

    async def turns(count: int) -> Sequence[Any]:
        return [turn_request(INSTANT) for _ in range(count)]

    plain, lane = around.plain, around.lane
    one = partial(_prepared, plain, 1, INSTANT)
    found: dict[str, Take] = {}
    for in_flight in (MANY, MORE):
        usual = 640
        found[f"bare {in_flight}"] = of(around.bare, bare.stream, in_flight, usual, one)
        found[f"lane {in_flight}"] = of(around.sidecar, lane.dispatch, in_flight, usual, one)
        found[f"plain {in_flight}"] = of(around.sidecar, plain.dispatch, in_flight, usual, one)
        found[f"twin {in_flight}"] = of(around.twin, twin.stream, in_flight, usual, one)
    found["lane asleep"] = of(around.sidecar, lane.dispatch, 1, 32, partial(_prepared, plain, MOST_CHILDREN, SLEEPING))
    found["lane instant"] = of(around.sidecar, lane.dispatch, 1, 200, one)
    for in_flight in (1, MANY):
        found[f"bare bind {in_flight}"] = of(around.bare, bare.bind, in_flight, 400, turns)
        found[f"lane bind {in_flight}"] = of(around.sidecar, lane.bind_on_lane, in_flight, 400, turns)
    return found


async def _prepared(client: SidecarClient, children: int, kind: str, count: int) -> Sequence[Any]:
    return await client.prepared(kind, children, count)


async def run(rounds: int, share: float, record: str = SQLITE) -> Sequence[Ratio]:
    """Measure everything. Raises `ServerLost`, `WrongAnswer`."""
    samples: dict[str, list[Sample]] = {}
    async with everything(record) as around, langgraph(None) as peer:
        slots = dict(takes(around, share))
        if peer is not None:
            slots["ToolNode asleep"] = partial(peer.measure, TOOL_NODE, max(1, round(32 * share)))
            slots["ToolNode instant"] = partial(peer.measure, INSTANT_NODE, max(1, round(200 * share)))
        for number in range(rounds + 1):
            for name, take in slots.items():
                sample = await take()
                if number:  # the first round warms up
                    samples.setdefault(name, []).append(sample)
        stopped = await _goodput_beside_one_that_stops_reading(around, share)
        lanes, metadata = max(8, round(IDLE_LANES * min(1.0, share))), around.plain.metadata
        idle = await bytes_of_a_lane(around.sidecar, around.socket, metadata, lanes, CONNECTIONS)
    return ratios(samples, stopped, idle)


async def _goodput_beside_one_that_stops_reading(around: Around, share: float) -> float:
    take = takes(around, share)[f"lane {MANY}"]
    alone = (await take()).rate
    async with client_that_stops_reading(around.socket, around.secret):
        return (await take()).rate / alone


def ratios(samples: Series, stopped: float, idle: float) -> Sequence[Ratio]:
    """Return the rows."""

    def compared(name: str, of: str, what: Callable[[Sample], float]) -> float:
        return _median(samples, name, what) / _median(samples, of, what)

    rows = [
        _at_most(f"A/A pair, {n} in flight", abs(compared(f"twin {n}", f"bare {n}", _rate) - 1), TOLERANCE)
        for n in (MANY, MORE)
    ]
    for n, aim in ((MANY, 1.2), (MORE, 1.4)):
        rows += [
            _at_least(f"over the lane, {n} in flight", compared(f"lane {n}", f"bare {n}", _rate), aim),
            Ratio(f"the same over plain RPCs, {n} in flight", compared(f"plain {n}", f"bare {n}", _rate), "", None),
        ]
    for n in (1, MANY):
        rows += [
            _at_most(f"BindTurn, {n} in flight: {what}", compared(f"lane bind {n}", f"bare bind {n}", get), 1.15)
            for what, get in (("latency", _p50), ("CPU", _cpu))
        ]
    rows += [
        _at_most("8 children of 20 ms, milliseconds", _median(samples, "lane asleep", _p50) * 1000, 24.0),
        _at_most("an idle lane, KiB", idle / 1024, 48.0),
        Ratio("goodput beside a client that stops reading", stopped, "", None),
    ]
    if "ToolNode asleep" in samples:
        over = _median(samples, "lane asleep", _p50) - SLEEP_SECONDS
        theirs = _median(samples, "ToolNode asleep", _p50) - SLEEP_SECONDS
        rows += [
            _at_most("overhead of those 8, of ToolNode's", over / theirs, 0.65),
            _at_most("1 instant child, of ToolNode's latency", compared("lane instant", "ToolNode instant", _p50), 1.0),
        ]
    return rows


def _median(samples: Series, name: str, what: Callable[[Sample], float]) -> float:
    return median(map(what, samples[name]))


def _rate(sample: Sample) -> float:
    return sample.rate


def _p50(sample: Sample) -> float:
    return sample.p50


def _cpu(sample: Sample) -> float:
    return sample.cpu


def _at_least(name: str, value: float, aim: float) -> Ratio:
    return Ratio(name, value, f">= {aim:g}", value >= aim)


def _at_most(name: str, value: float, aim: float) -> Ratio:
    return Ratio(name, value, f"<= {aim:g}", value <= aim)


@asynccontextmanager
async def everything(record: str) -> AsyncIterator[Around]:
    """Start the sidecar, and two bare servers that answer what it does."""
    async with AsyncExitStack() as started:
        folder = Path(started.enter_context(TemporaryDirectory(prefix="bench-")))
        write_definitions(folder / "definitions")
        own = folder / "own"
        own.mkdir(mode=0o700)
        socket = own / "sidecar.sock"
        said = ["--definitions", str(folder / "definitions"), "--record", record, "--lanes"]
        sidecar = await started.enter_async_context(running("sidecar_server", socket, said))
        secret = secret_file(socket).read_text(encoding="utf-8").strip()
        plain = SidecarClient(sidecar.channel, secret)
        (job,) = await plain.prepared(INSTANT, 1, 1)
        write_answers(folder, await plain.frames(job), await plain.bound(turn_request(INSTANT)))
        await plain.end_all()
        bare, twin = [
            await started.enter_async_context(running("bare_server", folder / name, ["--answers", str(folder)]))
            for name in ("bare.sock", "twin.sock")
        ]
        lane = await started.enter_async_context(lane_to(sidecar.channel, secret))
        yield Around(sidecar, socket, secret, plain, lane, bare, twin)


def main() -> int:
    """Read the command line, measure, and print."""
    parser = argparse.ArgumentParser(description="The rows of the session lane.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--record", default=SQLITE)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows = runner.run(run(given.rounds, given.share, given.record))
    if given.json:
        print(json.dumps([{"name": row.name, "value": row.value, "aim": row.aim, "met": row.met} for row in rows]))
    else:
        for row in rows:
            said = "" if row.met is None else f"{row.aim:>8}  {'met' if row.met else 'NOT MET'}"
            print(f"{row.name:<48}{row.value:>10.3f}  {said}")
    valid = all(row.met for row in rows if row.name.startswith("A/A"))
    if not valid:
        print("void: the same server measured twice differs by more than a tenth", file=sys.stderr)
    return 0 if valid else 1


if __name__ == "__main__":
    sys.exit(main())
