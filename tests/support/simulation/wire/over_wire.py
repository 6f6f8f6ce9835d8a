"""Puts the RPC layer between the simulated clients and the operations."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.operations.process.turn_assembly import Operations
from tests.support.simulation.ports import WatchedSpawner
from tests.support.simulation.wire.calling import WireOperations
from tests.support.simulation.wire.served import ServedOperations

WAYS: Final[Mapping[str, str]] = {"rpc": "rpc", "lane": "lane"}
"""How the clients of a suite speak; of other suites they call the operations directly."""


class OverWire:
    """The RPC layer of one run.

    Attributes:
        asking: what the clients ask.
        problems: what was wrong, once it is finished.
    """

    def __init__(
        self,
        operations: Operations,
        way: str,
        loop: VirtualLoop,
        spawner: WatchedSpawner,
        clock: Any,
        name: str,
        counted: Any,
    ) -> None:
        self._served = ServedOperations(operations, loop, spawner, clock, name, counted)
        self.asking = WireOperations(self._served, loop, operations, way, counted)
        self.asking.plan(Random(f"cuts {name}"))
        self.problems: list[str] = []

    async def finish(self, clients: Sequence[Any]) -> None:
        """Close the lanes, decode what arrived, and see what is left."""
        await self.asking.lanes.close()
        for client in clients:
            client.decode(self.asking.problems)
        self.problems += [*self.asking.problems, *self._served.left_over()]
