"""The sidecar as the benchmark measures it, without gRPC: requests go to its outermost handler, as bytes."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from scripts.benchmark import instant_runner
from scripts.benchmark.clients import SERVICE, job, turn_request
from scripts.benchmark.definitions import INSTANT, write_definitions
from scripts.benchmark.sidecar_server import Varied, settings
from sidecar.adapters.system import OwnedTasks
from sidecar.composition.operations import joined_operations
from sidecar.composition.parts import Components, Overrides
from sidecar.composition.record.open_record import RecordDependencies, opened_record
from sidecar.composition.telemetry.background_reports import DefectReports
from sidecar.composition.telemetry.collector import Telemetry
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.operations.record.projector import Projector
from sidecar.rpc import handler_guard, outermost
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from sidecar.rpc.in_flight import InFlight
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2
from tests.budgets.stand_ins import NoChance, SeededIds, StillClock

SECRET: Final = "boot-secret-of-the-budgets-0123456789abcdef"
LEFT_SECONDS: Final = 30.0
SEEDS: Final = 1000
"""So that callers and sidecar do not make the same ids."""


@dataclass
class Details:
    """What gRPC asks a handler for."""

    method: str
    invocation_metadata: Any = ()


class Listener:
    """The other end of a call: takes each message at once."""

    def __init__(self, write: Callable[[bytes], Coroutine[Any, Any, None]] | None = None) -> None:
        self.messages: list[bytes] = []
        self._write = write

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        """Return the boot secret."""
        return ((BOOT_SECRET_KEY, SECRET),)

    def time_remaining(self) -> float:
        """Return seconds, the same at all times."""
        return LEFT_SECONDS

    def cancelled(self) -> bool:
        """Say no."""
        return False

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...], /) -> None:
        """Do nothing: an operation has no headers."""

    async def write(self, message: bytes, /) -> None:
        """Take a message."""
        self.messages.append(message)
        if self._write is not None:
            await self._write(message)

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> Any:
        """Fail: every call of these tests is answered."""
        raise AssertionError(f"{code}: {details}")


@dataclass(frozen=True, slots=True)
class Served:
    """A sidecar, and short ways to call it: bytes in and bytes out, so that only the sidecar's own work counts."""

    outer: outermost.ErrorInterceptor
    tasks: OwnedTasks
    random: Random
    projector: Projector | None

    async def project(self) -> None:
        """Have all that is on record in the lists, as the loop that runs beside dispatches does, without its pauses."""
        assert self.projector is not None
        while await self.projector.step():
            pass

    async def bind(self) -> pb.BindTurnResponse:
        """Bind a new turn of a new episode."""
        return pb.BindTurnResponse.FromString(await self.answered("BindTurn", self.a_bind()))

    def a_bind(self) -> bytes:
        """Return the request for a new turn of a new episode."""
        request = turn_request(INSTANT)
        request.turn_id, request.episode_id = self._id(), self._id()
        return request.SerializeToString()

    def a_dispatch(self, bound: pb.BindTurnResponse, children: int) -> bytes:
        """Return the request for a dispatch of so many calls."""
        request = job(bound, INSTANT, children).request
        request.dispatch_id = self._id()
        for call in request.calls:
            call.call_id = self._id()
        return request.SerializeToString()

    def an_end(self, bound: pb.BindTurnResponse) -> bytes:
        """Return the request to end a turn."""
        return pb.EndTurnRequest(surface_token=bound.surface_token, narration="I found this.").SerializeToString()

    async def answered(self, method: str, request: bytes) -> bytes:
        """Call a method that answers with one message."""
        handler = self.outer.service(Details(f"{SERVICE}/{method}"))
        answer: bytes = await handler.unary_unary(request, Listener())
        return answer

    async def dispatched(self, request: bytes) -> Sequence[bytes]:
        """Dispatch, and return every message."""
        listener = Listener()
        last = await self.outer.service(Details(f"{SERVICE}/Dispatch")).unary_unary(request, listener)
        return [*listener.messages, last] if last else listener.messages

    async def dispatched_over_a_lane(self, requests: Sequence[bytes]) -> Sequence[bytes]:
        """Open a lane, dispatch everything in one message, and return every message until the lane has ended."""
        operations = [
            pb.SessionOperation(correlation_id=at, dispatch=pb.DispatchRequest.FromString(request))
            for at, request in enumerate(requests, start=1)
        ]
        asked = [
            pb.SessionRequest(hello=pb.SessionClientHello(contract_version=1)).SerializeToString(),
            pb.SessionRequest(operations=operations).SerializeToString(),
        ]

        async def sent() -> AsyncIterator[bytes]:
            for message in asked:
                yield message

        listener = Listener()
        await self.session(sent(), listener.write)
        return listener.messages

    async def session(
        self, messages: AsyncIterator[bytes], write: Callable[[bytes], Coroutine[Any, Any, None]]
    ) -> None:
        """Serve a lane until it has ended."""
        await self.outer.service(Details(f"{SERVICE}/Session")).stream_stream(messages, Listener(write))

    def running(self) -> int:
        """Return how many tasks have not ended, without a call of the sidecar's: how often this is asked is chance."""
        return len(self.tasks._tasks)

    def _id(self) -> str:
        return f"{self.random.getrandbits(128):032x}"


def check_lane(messages: Sequence[bytes], dispatches: int, children: int) -> None:
    """See that every call of every dispatch has succeeded."""
    results = [each for message in messages for each in pb.SessionResponse.FromString(message).results]
    last = [each.dispatch.SerializeToString() for each in results if each.HasField("status")]
    assert len(last) == dispatches, results
    for each in last:
        check([each], children)


def check(messages: Sequence[bytes], children: int) -> None:
    """See that every call has succeeded: else a cheap dispatch would be no merit."""
    outcomes = pb.DispatchResponse.FromString(messages[-1]).frame.result.outcomes
    assert [each.outcome for each in outcomes] == [outcome_pb2.OUTCOME_SUCCEEDED] * children, outcomes


@asynccontextmanager
async def served(folder: Path, varied: Varied, seed: int = 1) -> AsyncIterator[Served]:
    """Join all that a sidecar consists of, but the listeners and what runs in the background all the time.

    Args:
        folder: empty, or with the files of another one.
        varied: where the record is, and how much is kept.
        seed: of ids; a record takes each id once.
    """
    if not (folder / "definitions").exists():
        write_definitions(folder / "definitions")
    (folder / "run").mkdir(mode=0o700, exist_ok=True)
    strays: list[str] = []
    parts = _parts(folder, varied, seed, OwnedTasks(lambda name, error: strays.append(f"{name}: {error!r}")))
    replaced = parts.replaced
    async with AsyncExitStack() as opened:
        around = RecordDependencies(replaced.clock, replaced.ids, parts.tasks, parts.recorder, parts.redactor)
        kept = await opened.enter_async_context(opened_record(parts.settings.record, around))
        opened.push_async_callback(parts.tasks.close)
        _, (plan, *_), _ = await joined_operations(parts, kept, SECRET, opened)
        rpc = handler_guard.HandlerContext(
            on_defect=lambda method, _, error: strays.append(f"{method}: {error!r}"), correlation_id=lambda: "none"
        )
        outer = outermost.ErrorInterceptor(plan.entrance, plan.methods, rpc)
        yield Served(outer, parts.tasks, Random(SEEDS + seed), None if kept.lists is None else kept.lists[1])
    assert strays == []


def _parts(folder: Path, varied: Varied, seed: int, tasks: OwnedTasks) -> Components:
    said = settings(folder / "run" / "sidecar.sock", folder / "definitions", varied)
    redactor, metrics = Redactor(), Metrics()
    recorder = MeasuringRecorder(metrics, error_emit=said.telemetry.error_emit)
    return Components(
        settings=said,
        replaced=Overrides(clock=StillClock(), ids=SeededIds(seed), chance=NoChance(), plugins=(instant_runner,)),
        redactor=redactor,
        metrics=metrics,
        readiness=Readiness(lambda _: None),
        recorder=recorder,
        tasks=tasks,
        defects=DefectReports(recorder),
        in_flight=InFlight(),
        telemetry=Telemetry(said.telemetry, metrics, redactor),
    )
