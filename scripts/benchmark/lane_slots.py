"""What has its turn over a session lane: a sidecar of its own, durable unless databases are left out."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from scripts.benchmark.clients import turn_request
from scripts.benchmark.definitions import INSTANT, MOST_CHILDREN, SLEEPING, write_definitions
from scripts.benchmark.lane_client import LaneClient, lane_to
from scripts.benchmark.lane_crowds import client_that_stops_reading, idle_lanes
from scripts.benchmark.load import Call, Sample, measure
from scripts.benchmark.plan import Plan
from scripts.benchmark.processes import Server, running
from scripts.benchmark.sidecar_server import MEMORY, SQLITE, secret_file
from scripts.benchmark.targets import (
    IDLE_LANES,
    LANE,
    LANE_ASLEEP,
    LANE_BIND,
    LANE_ROWS,
    LANE_STALLED,
    MANY,
    MORE,
    SLEEPING_TURNS,
    Slot,
)

LANES: Final = 1000

Prepare = Callable[[int], Awaitable[Sequence[Any]]]


@asynccontextmanager
async def lane_slots(plan: Plan) -> AsyncIterator[Sequence[Slot]]:
    """Start a sidecar and open a lane to it; gives nothing where no row asks for it. Raises `ServerLost`."""
    if not plan.asks(LANE_ROWS):
        yield ()
        return
    with TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        write_definitions(folder / "definitions")
        record = SQLITE if plan.databases else MEMORY
        async with (
            _sidecar(folder, plan, record) as (server, socket, secret),
            lane_to(server.channel, secret) as client,
        ):
            over = _OverLane(server, client, partial(client_that_stops_reading, socket, secret))
            yield [*over.slots(), Slot(IDLE_LANES, 1, LANES, partial(_idle, folder, plan))]


@asynccontextmanager
async def _sidecar(folder: Path, plan: Plan, record: str) -> AsyncIterator[tuple[Server, Path, str]]:
    with TemporaryDirectory(prefix="lanes-", dir=folder) as own:
        socket = Path(own) / "sidecar.sock"
        said = ["--definitions", str(folder / "definitions"), "--record", record, "--lanes", *plan.on_core]
        async with running("sidecar_server", socket, said) as server:
            yield server, socket, secret_file(socket).read_text(encoding="utf-8").strip()


@dataclass(frozen=True, slots=True)
class _OverLane:
    """A lane, and how to make a second one whose client does not read."""

    server: Server
    client: LaneClient
    unread: Callable[[], AbstractAsyncContextManager[None]]

    def slots(self) -> Sequence[Slot]:
        """Return what has its turn over the lane."""
        dispatch, bind = self.client.dispatch, self.client.bind_on_lane
        one = partial(self._dispatches, 1, INSTANT)
        asleep = partial(self._dispatches, MOST_CHILDREN, SLEEPING)
        found = [self._slot(LANE, in_flight, 480, dispatch, one) for in_flight in (MANY, MORE)]
        return [
            *found,
            self._slot(LANE, 1, 200, dispatch, one),
            self._slot(LANE_ASLEEP, 1, SLEEPING_TURNS, dispatch, asleep),
            self._slot(LANE_BIND, 1, 200, bind, _turns),
            self._slot(LANE_BIND, MANY, 480, bind, _turns),
            Slot(LANE_STALLED, MANY, 480, self._beside_unread),
        ]

    def _slot(self, target: str, in_flight: int, usual: int, call: Call, prepare: Prepare) -> Slot:
        async def take(count: int) -> Sample:
            sample = await measure(self.server, call, await prepare(count), in_flight)
            await self.client.end_all()
            return sample

        return Slot(target, in_flight, usual, take)

    async def _dispatches(self, children: int, kind: str, count: int) -> Sequence[Any]:
        return await self.client.prepared(kind, children, count)

    async def _beside_unread(self, count: int) -> Sample:
        async with self.unread():
            jobs = await self.client.prepared(INSTANT, 1, count)
            sample = await measure(self.server, self.client.dispatch, jobs, MANY)
        await self.client.end_all()
        return sample


async def _turns(count: int) -> Sequence[Any]:
    return [turn_request(INSTANT) for _ in range(count)]


async def _idle(folder: Path, plan: Plan, count: int) -> Sample:
    """Open lanes to a new process: memory that another round has freed would be taken again, and not be seen."""
    async with _sidecar(folder, plan, MEMORY) as (server, socket, secret):
        return await idle_lanes(server, socket, secret, count)
