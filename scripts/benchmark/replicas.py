"""Two sidecars over one PostgreSQL: how long after a kill or a rollback is accepted each of them still offers it.

A loop at each replica binds turns, one after the other, all on the clock of this process. An action is asked of one
replica, of each in turn, while both loops run. What counts for a replica is the time from the answer to the action to
the answer of its first bind without the sub-agent; none if a bind that was answered before lacked it already.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from scripts.benchmark.clients import SidecarClient, WrongAnswer, turn_request
from scripts.benchmark.definitions import SERVED, orchestrator_of, write_served
from scripts.benchmark.load import Sample, sample_of
from scripts.benchmark.operating import Operator, OperatorKey, operators_socket
from scripts.benchmark.processes import Server, running
from scripts.benchmark.sidecar_server import secret_file

COUNT: Final = 2
USUAL: Final = 12
"""Actions in a round, kills and rollbacks by turns."""
TURNS: Final = 100_000
LONGEST_SECONDS: Final = 10.0
"""After which an action that does not show is no measurement."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the sidecars."""

    server: Server
    client: SidecarClient
    operator: Operator


class Replicas:
    """Sidecars over one database, and the slots that are still served there.

    Args:
        replicas: the sidecars.
        slots: served by all; each is taken away once.
    """

    def __init__(self, replicas: Sequence[Replica], slots: Sequence[str]) -> None:
        self._replicas = replicas
        self._slots = iter(slots)
        self._taken = 0

    async def measure(self, actions: int) -> Sample:
        """Take away slots, one after the other.

        Raises:
            WrongAnswer: one was not offered before, or is still offered long after.
        """
        cpu, began = self._cpu_seconds(), time.perf_counter()
        seen = [each for _ in range(actions) for each in await self._taken_away(next(self._slots))]
        cpu, took = self._cpu_seconds() - cpu, time.perf_counter() - began
        for replica in self._replicas:
            await replica.client.end_all()
        return sample_of(seen, actions / took, cpu / actions)

    async def _taken_away(self, slot: str) -> Sequence[float]:
        """Return for each replica how long it offered the slot after that was over, in seconds."""
        number, self._taken = self._taken, self._taken + 1
        for replica in self._replicas:
            if not await _offers(replica, slot):
                raise WrongAnswer(f"{slot} should be offered before it is taken away")
        asked = self._replicas[number // 2 % COUNT].operator
        over = [asyncio.ensure_future(_gone(replica, slot)) for replica in self._replicas]
        try:
            await (asked.kill(slot) if number % 2 == 0 else asked.roll_back(slot))
            accepted = time.perf_counter()
            return [max(0.0, each - accepted) for each in await asyncio.gather(*over)]
        finally:
            for task in over:
                task.cancel()

    def _cpu_seconds(self) -> float:
        return sum(replica.server.cpu_seconds() for replica in self._replicas)


async def _gone(replica: Replica, slot: str) -> float:
    """Bind until the slot is not offered; return when that was."""
    until = time.perf_counter() + LONGEST_SECONDS
    while await _offers(replica, slot):
        if time.perf_counter() > until:
            raise WrongAnswer(f"{slot} is still offered {LONGEST_SECONDS:g} s after it was to be taken away")
    return time.perf_counter()


async def _offers(replica: Replica, slot: str) -> bool:
    bound = await replica.client.bound(turn_request(orchestrator_of(slot)))
    return any(tool.sub_agent_id == slot for tool in bound.surface.sub_agent_tools)


@asynccontextmanager
async def replicas(folder: Path, dsn: str, actions: int, on_core: Sequence[str]) -> AsyncIterator[Replicas]:
    """Start them over an empty database with as many slots as there will be actions.

    Raises:
        ServerLost: one did not start.
    """
    write_served(folder / SERVED, actions)
    key = OperatorKey(folder / "replicas.pub")
    shared = ["--definitions", str(folder / SERVED), "--record", dsn, "--operator-key", str(key.file)]
    arguments = [*shared, "--turns", str(TURNS), *on_core]
    async with _replica(folder, 0, arguments, key) as first, _replica(folder, 1, arguments, key) as second:
        yield Replicas((first, second), [f"{SERVED}-{number}" for number in range(actions)])


@asynccontextmanager
async def _replica(folder: Path, number: int, arguments: Sequence[str], key: OperatorKey) -> AsyncIterator[Replica]:
    place = folder / f"replica-{number}"
    place.mkdir(mode=0o700)
    socket = place / "sidecar.sock"
    async with (
        running("sidecar_server", socket, arguments) as server,
        grpc.aio.insecure_channel(f"unix:{operators_socket(socket)}") as channel,
    ):
        client = SidecarClient(server.channel, secret_file(socket).read_text(encoding="utf-8").strip())
        yield Replica(server, client, Operator(channel, key.token()))
