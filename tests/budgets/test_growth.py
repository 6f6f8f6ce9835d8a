"""What does not grow with use: what a process holds on to over its turns, and what a bind costs beside open turns.

Objects and calls are counted, not bytes or times: they are the same in each run.
"""

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import pytest
from msgspec.structs import replace

from scripts.benchmark.sidecar_server import MEMORY, SQLITE, Varied
from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.adapters.record_memory import JournalContents
from sidecar.adapters.sqlite.worker import Worker
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.budgets.live_objects import live_objects
from tests.budgets.meter import CountingLoop, Meter, Spot
from tests.budgets.scenarios import bind
from tests.budgets.served import Served, check, served

TURNS: Final = 48
"""More than anything keeps here, by far."""
FEW: Final = 8
CALLS: Final = 3
OURS: Final = "sidecar."
NUMBERS: Final = ("builtins.int", "builtins.float")
"""Left out: the budget of retries keeps the time of each call for some seconds, and Python shares small numbers."""
LONG: Final = 60.0
KEPT_BY_A_LANE: Final = (
    "sidecar.core.session.incoming.IncomingValidator",
    "sidecar.core.session.outgoing.OutgoingQueue",
    "sidecar.rpc.methods.Call",
    "sidecar.rpc.session.lane.Lane",
    "sidecar.rpc.session.writing.LaneWriter",
)
OPEN: Final = (10, 2000)
METER: Final = Meter()

Kind = TypeVar("Kind")


@contextmanager
def still_loop() -> Iterator[asyncio.Runner]:
    """Give a loop whose time stands still: nothing is done again because a second is over."""
    handlers, logging.root.handlers = logging.root.handlers, [logging.NullHandler()]  # others keep lines for a while
    try:
        with asyncio.Runner(loop_factory=lambda: CountingLoop(METER)) as runner:
            yield runner
    finally:
        logging.root.handlers = handlers


@pytest.mark.parametrize("record", [MEMORY, SQLITE])
def test_ended_turns_leave_nothing_beyond_what_is_bounded(record: str, tmp_path: Path) -> None:
    """After N and after 2N ended turns with two dispatches each, there are as many objects of each of our types.

    Of the interpreter's own types, the test's among them, there are not as many more as there were turns.
    """
    with still_loop() as runner:
        before, after = runner.run(objects_counted(record, tmp_path))
    assert ours(after) == ours(before)
    grown = {name: more for name, more in (after - before).items() if name not in NUMBERS and more >= TURNS // 2}
    assert grown == {}


@pytest.mark.parametrize("record", [MEMORY, SQLITE])
def test_what_is_forgotten_is_freed_at_once(record: str, tmp_path: Path) -> None:
    """Nothing waits for the garbage collector, which looks so seldom that memory would grow by a hundred megabytes."""
    with still_loop() as runner:
        assert runner.run(garbage_counted(record, tmp_path)) == 0


@pytest.mark.parametrize("record", [MEMORY, SQLITE])
def test_a_bind_costs_the_same_beside_many_open_turns(record: str, tmp_path: Path) -> None:
    """Python calls by function, with 10 and with 2,000 open turns."""
    with still_loop() as runner:
        few, many = runner.run(binds_counted(record, tmp_path))
    assert few.total() > 0
    assert many == few


def test_an_idle_lane_keeps_a_few_objects_and_a_closed_one_none(tmp_path: Path) -> None:
    """One task beside that of its call, the one that reads, and a handful of our objects."""
    with still_loop() as runner:
        none, opened, closed = runner.run(lanes_counted(tmp_path))
    assert (opened - none)["_asyncio.Task"] == FEW
    kept = {name: count for name, count in (opened - none).items() if name.startswith(OURS) and count >= FEW}
    assert kept == dict.fromkeys(KEPT_BY_A_LANE, FEW)
    assert [name for name in kept if closed[name] > none[name]] == []


async def lanes_counted(folder: Path) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return what is there without a lane, with idle ones, and once those have ended."""
    async with served(folder, Varied(MEMORY, lanes=True)) as sidecar:
        async with idle_lanes(sidecar, FEW):
            pass  # what is made on first use is there
        none = live_objects()
        async with idle_lanes(sidecar, FEW):
            opened = live_objects()
        return none, opened, live_objects()


@asynccontextmanager
async def idle_lanes(sidecar: Served, count: int) -> AsyncIterator[None]:
    """Keep so many lanes open on which nothing is sent but the hello."""
    ends = asyncio.Event()
    hello = pb.SessionRequest(hello=pb.SessionClientHello(contract_version=1)).SerializeToString()

    async def sent() -> AsyncIterator[bytes]:
        yield hello
        await ends.wait()

    async def taken(_: bytes) -> None:
        opened.release()

    opened = asyncio.Semaphore(0)
    lanes = [asyncio.ensure_future(sidecar.session(sent(), taken)) for _ in range(count)]
    for _ in lanes:
        await opened.acquire()
    yield
    ends.set()
    await asyncio.gather(*lanes)


async def objects_counted(record: str, folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Return what is there after N and after 2N turns. Bounds are low, so that they were reached before that."""
    async with served(folder, Varied(record, ended_turns=2, episodes=FEW)) as sidecar:
        for contents in the_live(JournalContents):
            contents.kept = FEW
        for memory in the_live(InProcessMemory):
            memory._bounds = replace(memory._bounds, episodes=FEW)
        await ended_turns(sidecar, 2 * TURNS)
        before = await settled_objects()
        await ended_turns(sidecar, TURNS)
        return before, await settled_objects()


async def settled_objects() -> Counter[str]:
    """Return what is there once threads have let go of their last jobs, which is a moment after the answers."""
    await workers_idle()
    return live_objects()


async def workers_idle() -> None:
    """Have each thread do a job that keeps nothing alive. Those of earlier tests are stopped."""
    for worker in the_live(Worker):
        if not worker._stopped:
            await worker.run(lambda: None)


async def garbage_counted(record: str, folder: Path) -> int:
    """Return how many objects turns have left that only the garbage collector finds."""
    async with served(folder, Varied(record, ended_turns=2, episodes=FEW)) as sidecar:
        await ended_turns(sidecar, FEW)
        gc.collect()
        gc.disable()
        try:
            await ended_turns(sidecar, TURNS)
            return gc.collect()
        finally:
            gc.enable()


async def binds_counted(record: str, folder: Path) -> list[Counter[Spot]]:
    """Return what a bind takes with few and with many open turns."""
    found = []
    async with served(folder, Varied(record, turns=OPEN[-1] + FEW)) as sidecar:
        for _ in range(FEW):
            await bind(METER, sidecar)  # what is made on first use is there
        bound = FEW
        for most in OPEN:
            for _ in range(most - bound):
                await sidecar.bind()
            found.append((await bind(METER, sidecar))["calls"])
            bound = most + 1
    return found


async def ended_turns(sidecar: Served, count: int) -> None:
    """Bind, dispatch twice and end, so often; return when nothing runs any more."""
    for _ in range(count):
        bound = await sidecar.bind()
        for calls in (1, CALLS):
            check(await sidecar.dispatched(sidecar.a_dispatch(bound, calls)), calls)
        await sidecar.answered("EndTurn", sidecar.an_end(bound))
    await sidecar.tasks.ended(LONG)


def ours(counted: Counter[str]) -> dict[str, int]:
    """Return the sidecar's own types."""
    return {name: count for name, count in counted.items() if name.startswith(OURS)}


def the_live(kind: type[Kind]) -> list[Kind]:
    """Return all objects of a type."""
    return [each for each in gc.get_objects() if type(each) is kind]
