"""A real gRPC server on Unix sockets with scripted sub-agents behind it, for tests through the RPC.

    async with running_sidecar_for_tests(cap=2) as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        assert reply.of("call-1").outcome == OUTCOME_SUCCEEDED

At its end the harness itself asserts that nothing was reported as a defect and no task has raised.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

import grpc

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.adapters.record_memory import MemoryStore
from sidecar.adapters.system import OwnedTasks, SystemClock, SystemIds, SystemRandomness
from sidecar.core.binding.bind import BindingRules
from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.rollout.view import RolloutView
from sidecar.core.status_events.policy import EventRule, Handling, Vocabulary
from sidecar.operations.ports import Clock
from sidecar.operations.process.turn_assembly import Operations, Ports, assemble
from sidecar.operations.record.ports import Store
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.call_tool import ToolResult
from sidecar.operations.turn.child.child_reports import ReportFiles
from sidecar.policy.memory import EpisodeMemory
from sidecar.rpc import dispatch_servicer, history_servicer, tool_gateway_servicer
from sidecar.rpc.authorisation import BOOT_SECRET_KEY, GRANT_KEY, CallAdmission, CallerKind
from sidecar.rpc.dispatch_servicer import DispatchServicer
from sidecar.rpc.handler_guard import HandlerContext, ServingRules
from sidecar.rpc.history_servicer import HistoryServicer
from sidecar.rpc.listeners import ListenerPlan, listening
from sidecar.rpc.session.rules import LaneCounts, LaneDependencies, SessionRules, contract
from sidecar.rpc.session.servicer import SessionServicer
from sidecar.rpc.tool_gateway_servicer import ToolGatewayServicer
from sidecar.settings import LimitsSettings
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc, outcome_pb2
from subagents.tools.v1 import tools_pb2, tools_pb2_grpc
from subagents_client.session.lane import Lane
from tests.support.builders import a_card, a_catalogue
from tests.support.fake_runner import ScriptedConnector, ScriptedRunner
from tests.support.lane_stub import KeptLaneReports, LaneStub, open_lane
from tests.support.requests import a_bind, some_calls
from tests.support.scripted_configuration import ScriptedDefinitions, ScriptedFlags
from tests.support.whole_result import whole_result

SECRET: Final = "boot-secret-of-the-tests-0123456789abcdef"
DRIVEN_OVER_LANES: ContextVar[bool] = ContextVar("driven over lanes", default=False)
"""Whether sidecars that do not say otherwise are driven over a lane; see `tests/rpc/conftest.py`."""
SLOTS: Final = ("shop", "rewards", "support")
VOCABULARY: Final = Vocabulary(
    {
        "searching_offers": EventRule(),
        "comparing_prices": EventRule(Handling.TRANSFORM, becomes="working"),
        "thinking_aloud": EventRule(Handling.SUPPRESS),
        "loading_data": EventRule(Handling.BATCH, window=timedelta(milliseconds=20)),
    }
)


class KeepingRecorder:
    """Keeps what operations report: `of("child_settled")` are the arguments of each such report."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.told: list[tuple[str, tuple[Any, ...]]] = []
        self._awaited: dict[str, asyncio.Event] = {}

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """Return what was reported under one name."""
        return [arguments for each, arguments in self.told if each == name]

    def __getattr__(self, name: str) -> Any:
        """Take any report."""
        return lambda *arguments: self._take(name, arguments)

    async def until(self, name: str, *begin: Any) -> None:
        """Wait for the first report under a name whose arguments begin so."""
        while not any(each[: len(begin)] == begin for each in self.of(name)):
            self._awaited[name] = self._awaited.get(name, asyncio.Event())
            self._awaited[name].clear()
            await self._awaited[name].wait()

    def _take(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.told.append((name, arguments))
        if name in self._awaited:
            self._awaited[name].set()


@dataclass(frozen=True, slots=True)
class Reply:
    """All frames of one stream."""

    frames: Sequence[pb.DispatchFrame]

    @property
    def result(self) -> pb.DispatchResult:
        """The result, with the answers that its events have carried; every whole stream has one."""
        return whole_result(self.frames)

    @property
    def events(self) -> list[pb.DispatchEvent]:
        """Every event, in the order of arrival."""
        return [event for frame in self.frames for event in frame.events]

    @property
    def outcomes(self) -> list[str]:
        """How each call ended, in emission order, e.g. `SUCCEEDED`."""
        return [outcome_name(each.outcome) for each in self.result.outcomes]

    def of(self, call_id: str) -> outcome_pb2.CallOutcome:
        """Return the outcome of one call."""
        return next(each for each in self.result.outcomes if each.call_id == call_id)


def outcome_name(outcome: Any) -> str:
    """Return the name of an outcome without its prefix."""
    return outcome_pb2.Outcome.Name(outcome).removeprefix("OUTCOME_")


@dataclass(slots=True)
class SidecarForTests:
    """The running sidecar, what is behind it, and short ways to call it."""

    operations: Operations
    runner: ScriptedRunner
    connector: ScriptedConnector
    definitions: ScriptedDefinitions
    flags: ScriptedFlags
    store: Store
    recorder: KeepingRecorder
    tasks: OwnedTasks
    around: HandlerContext
    channel: grpc.aio.Channel
    tools_channel: grpc.aio.Channel
    folder: Path
    defects: list[BaseException] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    ended: list[tuple[float, str, str, str, str]] = field(default_factory=list)
    metadata: tuple[tuple[str, str], ...] = ((BOOT_SECRET_KEY, SECRET),)
    lane: Lane | None = None
    lanes: Any = None
    lane_counts: LaneCounts = field(default_factory=LaneCounts)
    lane_reports: KeptLaneReports = field(default_factory=KeptLaneReports)
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))

    @property
    def stub(self) -> Any:
        """The consumer-agent's stub, over a lane if there is one; give it `metadata=sidecar.metadata`."""
        plain = dispatch_pb2_grpc.DispatchServiceStub(self.channel)
        return plain if self.lane is None else LaneStub(self.lane, plain)

    @property
    def dispatch_target(self) -> str:
        """Where the consumer-agent connects."""
        return f"unix:{self.folder / 'dispatch.sock'}"

    @property
    def agents_target(self) -> str:
        """Where runner hosts connect."""
        return f"unix:{self.folder / 'agents.sock'}"

    async def bind(self, **fields: Any) -> pb.BindTurnResponse:
        """Bind a turn; without a `turn_id` a new one."""
        fields.setdefault("turn_id", f"turn-{next(self._numbers)}")
        answer: pb.BindTurnResponse = await self.stub.BindTurn(a_bind(**fields), metadata=self.metadata)
        return answer

    def dispatch_request(
        self, bound: pb.BindTurnResponse, *calls: str | pb.ToolCall, **fields: Any
    ) -> pb.DispatchRequest:
        """Return a request; without a `dispatch_id` with a new one."""
        fields.setdefault("dispatch_id", f"dispatch-{next(self._numbers)}")
        return pb.DispatchRequest(
            surface_token=bound.surface_token,
            binding_digest=fields.pop("binding_digest", bound.surface.binding_digest),
            calls=some_calls(*calls),
            **fields,
        )

    async def dispatch(
        self, bound: pb.BindTurnResponse, *calls: str | pb.ToolCall, seconds: float = 10.0, **fields: Any
    ) -> Reply:
        """Dispatch calls such as `ask_shop` (`call-1`, `call-2`, ...) and read the whole stream."""
        return await self.send(self.dispatch_request(bound, *calls, **fields), seconds)

    async def send(self, request: pb.DispatchRequest, seconds: float = 10.0) -> Reply:
        """Send a dispatch and read the whole stream."""
        stream = self.stub.Dispatch(request, timeout=seconds, metadata=self.metadata)
        return Reply([message.frame async for message in stream])

    async def resume(self, bound: pb.BindTurnResponse, dispatch_id: str, after: int = 0) -> Reply:
        """Listen to a dispatch again, to its end."""
        request = pb.ResumeDispatchRequest(
            surface_token=bound.surface_token, dispatch_id=dispatch_id, after_sequence=after
        )
        stream = self.stub.ResumeDispatch(request, timeout=10, metadata=self.metadata)
        return Reply([message.frame async for message in stream])

    async def end(self, bound: pb.BindTurnResponse, **fields: Any) -> pb.EndTurnResponse:
        """End a turn."""
        request = pb.EndTurnRequest(surface_token=bound.surface_token, **fields)
        answer: pb.EndTurnResponse = await self.stub.EndTurn(request, timeout=10, metadata=self.metadata)
        return answer

    async def call_tool(self, grant: str, tool_id: str, arguments_json: str) -> ToolResult:
        """Call a tool as a runner host would."""
        answer = await tools_pb2_grpc.ToolGatewayServiceStub(self.tools_channel).CallTool(
            tools_pb2.CallToolRequest(tool_id=tool_id, arguments_json=arguments_json),
            timeout=10,
            metadata=((GRANT_KEY, grant),),
        )
        released = answer.WhichOneof("result") == "payload_json"
        return ToolResult(answer.payload_json if released else None, answer.partial)

    async def delegate(
        self, grant: str, tool_name: str, arguments_json: str = '{"request": "help"}'
    ) -> tools_pb2.DelegateResponse:
        """Delegate as a runner host would."""
        return await tools_pb2_grpc.ToolGatewayServiceStub(self.tools_channel).Delegate(
            tools_pb2.DelegateRequest(tool_name=tool_name, arguments_json=arguments_json),
            timeout=10,
            metadata=((GRANT_KEY, grant),),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a test may choose; everything else is as in the example configuration.

    Attributes:
        cap, max_dispatches: of every turn.
        cards: of the sub-agents; default: shop, rewards, support. An orchestrator `concierge` lists them all.
        rules: other rules of dispatching, by name of `DispatchRules`.
        keys: sign surface tokens; every sidecar of the tests has the same unless a test says otherwise.
        background: let the reaper look by itself; without it a test says when, `operations.reaper.look()`.
        flags: backends or scripted ones, with `current`.
        rollouts: what binds read of them; None: everything configured is promoted and at 100 %, so that flags decide.
        defects_expected: do not assert at the end that there was none.
        session: how lanes are served.
        over_lane: drive everything over a lane; see `DRIVEN_OVER_LANES`.
    """

    cap: int = 3
    max_dispatches: int = 8
    cards: Sequence[Card] = ()
    catalogue: Catalogue | None = None
    rules: dict[str, Any] = field(default_factory=dict)
    serving: ServingRules = field(default_factory=ServingRules)
    store: Store | None = None
    memory: EpisodeMemory | None = None
    reports: ReportFiles | None = None
    reflection: bool = False
    calls: int = 1024
    keys: Mapping[str, bytes] = field(default_factory=lambda: {"k1": b"k" * 32})
    clock: Clock = field(default_factory=SystemClock)
    background: bool = True
    rollouts: Callable[[], RolloutView] | None = None
    flags: Any = field(default_factory=ScriptedFlags)
    defects_expected: bool = False
    session: SessionRules = field(default_factory=SessionRules)
    over_lane: bool = field(default_factory=DRIVEN_OVER_LANES.get)


@asynccontextmanager
async def running_sidecar_for_tests(**chosen: Any) -> AsyncIterator[SidecarForTests]:
    """Serve on two Unix sockets while the context is open; the arguments are those of `Setup`."""
    setup = Setup(**chosen)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sc")))
        defects: list[BaseException] = []
        limits: list[str] = []
        ended: list[tuple[float, str, str, str, str]] = []
        tasks = OwnedTasks(lambda name, error: defects.append(error))
        stack.push_async_callback(tasks.close)
        around = HandlerContext(
            on_defect=lambda method, correlation_id, error: defects.append(error),
            correlation_id=lambda: "correlation-of-the-tests",
            rules=setup.serving,
            on_limit=limits.append,
            on_ended=lambda *told: ended.append(told),
        )
        sidecar = _joined(setup, tasks, around, folder)
        sidecar.defects, sidecar.limits, sidecar.ended = defects, limits, ended
        for plan in _plans(setup, sidecar):
            health = await stack.enter_async_context(listening(plan, around, LimitsSettings()))
            await health.set_serving(True)
        stack.push_async_callback(sidecar.channel.close)
        stack.push_async_callback(sidecar.tools_channel.close)
        for loop in sidecar.operations.loops if setup.background else ():
            tasks.spawn(loop(), "loop")
        if setup.over_lane:
            sidecar.lane = await stack.enter_async_context(open_lane(sidecar.channel, sidecar.metadata))
        yield sidecar
    assert setup.defects_expected or not defects, defects


def _joined(setup: Setup, tasks: OwnedTasks, around: HandlerContext, folder: Path) -> SidecarForTests:
    catalogue = setup.catalogue or a_catalogue(*(setup.cards or [a_card(slot) for slot in SLOTS]))
    runner, connector, recorder = ScriptedRunner(), ScriptedConnector(), KeepingRecorder()
    definitions, flags, store = (
        ScriptedDefinitions(catalogue),
        setup.flags,
        setup.store or MemoryStore(),
    )
    ports = Ports(
        clock=setup.clock,
        ids=SystemIds(),
        chance=SystemRandomness(),
        spawner=tasks,
        store=store,
        recorder=recorder,
        definitions=definitions,
        flags=cast("Any", flags),
        runners=OneRunner(runner),
        connectors=connector,
        memory=setup.memory or InProcessMemory(),
        reports=setup.reports,
        rollouts=setup.rollouts or definitions.promoted,
    )
    rules = DispatchRules(
        **{"binding": BindingRules(setup.cap, setup.max_dispatches), "vocabulary": VOCABULARY, **setup.rules}
    )
    operations = assemble(rules, SigningKeys(setup.keys, "k1"), ports)
    sidecar = SidecarForTests(
        operations=operations,
        runner=runner,
        connector=connector,
        definitions=definitions,
        flags=flags,
        store=store,
        recorder=recorder,
        tasks=tasks,
        around=around,
        channel=grpc.aio.insecure_channel(f"unix:{folder / 'dispatch.sock'}"),
        tools_channel=grpc.aio.insecure_channel(f"unix:{folder / 'agents.sock'}"),
        folder=folder,
    )
    runner.call_tool = sidecar.call_tool
    runner.delegate = sidecar.delegate
    return sidecar


class OneRunner:
    """The same runner for every card."""

    def __init__(self, runner: ScriptedRunner) -> None:
        """Keep it."""
        self._runner = runner

    def runner_for(self, card: Card) -> ScriptedRunner:
        """Return it."""
        return self._runner


def _plans(setup: Setup, sidecar: SidecarForTests) -> Iterator[ListenerPlan]:
    servicer = DispatchServicer(sidecar.operations, setup.serving.write_timeout, contract(setup.session))
    around = LaneDependencies(
        spawner=sidecar.tasks,
        clock=setup.clock,
        ids=SystemIds(),
        chance=SystemRandomness(),
        reports=sidecar.lane_reports,
        counts=sidecar.lane_counts,
    )
    sidecar.lanes = SessionServicer(setup.session, around, servicer.methods())
    ops, told = sidecar.operations, sidecar.recorder.anomaly
    gateway = ToolGatewayServicer(ops.call_tool, ops.history.read_own_turns, ops.delegate, ops.grants, told)
    yield ListenerPlan(
        socket=sidecar.folder / "dispatch.sock",
        entrance=CallAdmission(CallerKind.CONSUMER_AGENT, SECRET),
        services=(dispatch_servicer.SERVICE, history_servicer.SERVICE),
        methods=(*servicer.methods(), *sidecar.lanes.methods(), *HistoryServicer(sidecar.operations.history).methods()),
        streams=1024,
        reflection=setup.reflection,
        calls=setup.calls,
    )
    yield ListenerPlan(
        socket=sidecar.folder / "agents.sock",
        entrance=CallAdmission(CallerKind.RUNNER_HOST),
        services=(tool_gateway_servicer.SERVICE,),
        methods=gateway.methods(),
        streams=1024,
        reflection=setup.reflection,
    )
