"""Puts the RPC layer between the simulated clients and the operations."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.operations.process.turn_assembly import Operations
from tests.support.simulation.clients import Asked
from tests.support.simulation.ports import WatchedSpawner
from tests.support.simulation.wire.calling import WireOperations
from tests.support.simulation.wire.served import GRACE, ServedOperations, of_dispatch

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
        self.asking = WireOperations(self._served, loop, operations, way, Random(f"cuts {name}"), counted)
        self.problems: list[str] = []

    async def finish(self, clients: Sequence[Any], asked: Sequence[Asked]) -> None:
        """Close the lanes, decode what arrived, see what is left, and date requests as the operations met them."""
        await self.asking.close()
        for client in clients:
            client.decode(self.asking.problems)
        self.problems += [*self.asking.problems, *self._served.left_over()]
        for each in asked:
            self._date(each)

    def _date(self, asked: Asked) -> None:
        """Let a request count from when it was carried out: it waits for a lane, or for others on the same one."""
        match asked.what:
            case "dispatch":
                what = of_dispatch(asked.about[0])
            case "cancel":
                what = ("cancel", asked.of, asked.detail)
            case "end":
                what = ("end", asked.about.surface_token, asked.about.narration)
            case _:
                return
        met = [at for at in self._served.tap.arrived[what] if asked.asked_at <= at <= asked.over_at]
        asked.asked_at = min(met, default=asked.asked_at)
        if asked.answered_at is None and self.asking.way == "lane":
            asked.unclear = GRACE
