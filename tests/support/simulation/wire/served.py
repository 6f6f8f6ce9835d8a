"""The operations of a simulated sidecar behind its RPC layer, as they are served to consumer-agents."""

from collections import defaultdict
from collections.abc import Callable, Hashable
from datetime import timedelta
from random import Random
from typing import Any, Final

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.operations.process.turn_assembly import Operations
from sidecar.operations.turn.dispatch_calls import DispatchHandle
from sidecar.rpc.authorisation import BOOT_SECRET_KEY, CallAdmission, CallerKind
from sidecar.rpc.dispatch_servicer import DispatchServicer
from sidecar.rpc.handler_guard import HandlerContext
from sidecar.rpc.outermost import ErrorInterceptor
from sidecar.rpc.session.rules import LaneCounts, LaneDependencies, SessionRules, contract
from sidecar.rpc.session.servicer import SessionServicer
from tests.support.simulation.ports import CountedIds, WatchedChance, WatchedSpawner
from tests.support.simulation.wire.transport import Wire

SECRET: Final = "boot-secret-of-the-simulation-0123456789"
GRACE: Final = 5.0
"""Seconds within which a client may come back after its lane broke."""


class Tap:
    """What the operations answer, kept for the comparison with what arrives at the client.

    Attributes:
        arrived: when each request was carried out, by what it asks.
        bound: by turn.
        begun: by the trace of the request.
        dispatches: the newest answer, by id.
        closed: by turn.
    """

    def __init__(self, operations: Operations, now: Callable[[], float]) -> None:
        self._operations, self._now = operations, now
        self.history = operations.history
        self.dispatch_calls = self
        self.close_child = operations.close_child
        self.arrived: defaultdict[Hashable, list[float]] = defaultdict(list)
        self.bound: dict[str, Any] = {}
        self.begun: dict[str, DispatchHandle] = {}
        self.dispatches: dict[str, DispatchHandle] = {}
        self.closed: list[Any] = []

    async def bind_turn(self, request: Any) -> Any:
        """Bind, and keep the answer."""
        answer = self.bound[request.turn_id] = await self._operations.bind_turn(request)
        return answer

    async def begin(self, request: Any, left: timedelta | None, trace: Any) -> DispatchHandle:
        """Begin a dispatch, and keep what it is."""
        self.arrived[of_dispatch(request)].append(self._now())
        handle = await self._operations.dispatch_calls.begin(request, left, trace)
        self.begun[trace.traceparent] = self.dispatches[request.dispatch_id] = handle
        return handle

    async def resume_dispatch(self, request: Any) -> DispatchHandle:
        """Find a dispatch, and keep what it is."""
        handle = self.dispatches[request.dispatch_id] = await self._operations.resume_dispatch(request)
        return handle

    async def cancel_call(self, request: Any) -> Any:
        """Cancel a call."""
        self.arrived["cancel", request.dispatch_id, request.call_id].append(self._now())
        return await self._operations.cancel_call(request)

    async def end_turn(self, request: Any) -> Any:
        """End a turn, and keep the answer."""
        self.arrived["end", request.surface_token, request.narration].append(self._now())
        answer = await self._operations.end_turn(request)
        self.closed.append(answer)
        return answer


def of_dispatch(request: Any) -> Hashable:
    """Return what tells a dispatch from others, also from one with the same id and other contents."""
    return "dispatch", request.dispatch_id, len(request.calls), request.declared_intent_count


class Reports:
    """Hears of lanes that were given up."""

    def __init__(self, counted: Any) -> None:
        self._counted = counted

    def stalled(self, stall: Any) -> None:
        """Count it."""
        self._counted["lane stalled"] += 1

    def out_of_credit(self, credit: str) -> None:
        """Count it."""
        self._counted["lane out of credit"] += 1


class ServedOperations:
    """The listener of consumer-agents, without a socket.

    Attributes:
        problems: defects that the outermost wrapper met.
    """

    def __init__(
        self, operations: Operations, loop: VirtualLoop, spawner: WatchedSpawner, clock: Any, name: str, counted: Any
    ) -> None:
        self.tap = Tap(operations, loop.time)
        self.problems: list[str] = []
        self.counts = LaneCounts()
        chance = Random(f"wire {name}")
        rules = SessionRules(
            resume_grace=timedelta(seconds=GRACE),
            max_age=timedelta(seconds=chance.choice((2.0, 1800.0))),
            drain_time=timedelta(seconds=chance.choice((0.5, 120.0))),
        )
        around = LaneDependencies(
            spawner=spawner,
            clock=clock,
            ids=CountedIds("wire"),
            chance=WatchedChance(loop, f"lanes {name}"),
            reports=Reports(counted),
            counts=self.counts,
        )
        self.handler_context = HandlerContext(
            on_defect=lambda method, _, error: self.problems.append(f"{method}: {error!r}"),
            correlation_id=lambda: "of the simulation",
        )
        tapped: Any = self.tap
        servicer = DispatchServicer(tapped, timedelta(seconds=10), contract(rules))
        self.lanes = SessionServicer(rules, around, servicer.methods())
        entrance = CallAdmission(CallerKind.CONSUMER_AGENT, SECRET)
        served = ErrorInterceptor(entrance, (*servicer.methods(), *self.lanes.methods()), self.handler_context)
        self.wire = Wire(loop, served.service, ((BOOT_SECRET_KEY, SECRET),))
        self.rules = rules

    def left_over(self) -> list[str]:
        """Return what should be over by now, and is not; and the defects."""
        left = list(self.problems)
        if self.handler_context.in_flight.count:
            left.append(f"calls in flight: {self.handler_context.in_flight.by_method()}")
        if self.counts.lanes:
            left.append(f"{self.counts.lanes} lanes are open")
        return left
