"""The operations: real RPCs through generated stubs, each answer checked."""

from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

import grpc

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents_loadgen.plan import Choice, Mix, Scenario, arguments_for, choice_of, place_of, tools_for
from subagents_loadgen.wire.failures import UNEXPLAINED, reason_of, status_and_reason, status_of
from subagents_loadgen.wire.operation import Finished
from subagents_loadgen.wire.promises import StreamCheck, bind_violations, end_violations
from subagents_loadgen.wire.rpcs import Rpcs

NARRATION = "Here is what was found."
NOTHING_BOUND = "dispatch - THE_SURFACE_IS_EMPTY"
"""Counts as a failed RPC, because the operation could not dispatch."""
TASK = "A message of the load generator."
END_OPEN_DEADLINE: Final = 5.0
"""Seconds for an RPC that ends a turn whose operation could not; ending all of them takes at most twice as long."""
FOR_NOW: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
    }
)
"""Temporary failures, which do not say whether the turn is open."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The connections to one sidecar.

    Attributes:
        target: address of the sidecar.
        rpcs: connections to it, used in turn; at least one.
        weight: share of the operations, relative to the other targets.
    """

    target: str
    rpcs: Sequence[Rpcs]
    weight: float = 1.0


@dataclass(slots=True)
class OpenTurn:
    """A turn that may be open.

    Attributes:
        rpcs: connection of the bind.
        request: request of the bind.
        token: surface token; empty if the response to the bind is unknown.
    """

    rpcs: Rpcs
    request: pb.BindTurnRequest
    token: str = ""


class Turns:
    """Runs operations of a scenario.

    Args:
        connections: connections to the targets.
        mixes: the kinds of operations.
        seed: seed of the random choices.
        run: unique id of the run, with which ids of turns begin.
    """

    def __init__(self, connections: Sequence[Connection], mixes: Sequence[Mix], seed: int, run: str) -> None:
        self._connections = connections
        self._rpcs = [cycle(one.rpcs) for one in connections]
        self._mixes = mixes
        self._seed = seed
        self._run = run
        self._open: dict[int, OpenTurn] = {}

    async def carry_out(self, number: int) -> Finished:
        """Run operation `number`; the result contains all failures of the server."""
        place = place_of([one.weight for one in self._connections], self._seed, number, "target")
        mix = self._mixes[place_of([one.weight for one in self._mixes], self._seed, number, "kind")]
        choice = choice_of(mix, self._seed, number)
        turn = _Turn(next(self._rpcs[place]), mix, choice, f"{self._run}-{number}")
        turn.finished.kind, turn.finished.target = mix.name, self._connections[place].target
        self._open[number] = turn.open
        await turn.carry_out()
        if turn.over:
            del self._open[number]
        return turn.finished

    async def end_open(self) -> int:
        """End the turns whose operations could not, e.g. as they were interrupted. Returns how many are left open.

        A turn whose bind was not answered is bound again first, which is safe to repeat.
        """
        clock = self._connections[0].rpcs[0].clock
        latest = clock() + END_OPEN_DEADLINE
        for number, turn in list(self._open.items()):
            if clock() > latest:
                break
            try:
                if not turn.token:
                    bound = await turn.rpcs.ask("BindTurn", turn.request, END_OPEN_DEADLINE)
                    turn.token = bound.surface_token
                await turn.rpcs.ask("EndTurn", pb.EndTurnRequest(surface_token=turn.token), END_OPEN_DEADLINE)
            except grpc.RpcError as error:
                if not _no_turn_after("end" if turn.token else "bind", error):
                    continue
            del self._open[number]
        return len(self._open)


class _Turn:
    def __init__(self, rpcs: Rpcs, mix: Mix, choice: Choice, name: str) -> None:
        self._rpcs = rpcs
        self._mix = mix
        self._choice = choice
        self._name = name
        self._clock = rpcs.clock
        self._bound: pb.BindTurnResponse
        self.open = OpenTurn(rpcs, self._bind_request())
        self.over = False
        self.finished = Finished()

    async def carry_out(self) -> None:
        """Bind, dispatch and end; the end comes even when the dispatch failed, so that no turns pile up."""
        with self._step("bind"):
            self._bound = await self._rpcs.ask("BindTurn", self.open.request, self._mix.deadline)
            self.open.token = self._bound.surface_token
            self.finished.violations += bind_violations(self._bound)
        if self.finished.errors:
            return
        outcomes: Sequence[outcome_pb2.CallOutcome] | None = ()
        if self._mix.scenario is Scenario.BIND:
            self.finished.ended = self._clock()
        else:
            outcomes = await self._dispatched()
        with self._step("end"):
            end = pb.EndTurnRequest(surface_token=self._bound.surface_token, narration=NARRATION)
            ended = await self._rpcs.ask("EndTurn", end, self._mix.deadline)
            self.over = True
            self.finished.violations += end_violations(outcomes, ended)

    async def _dispatched(self) -> Sequence[outcome_pb2.CallOutcome] | None:
        """Return the outcomes; None if there are none, as an RPC failed or its answer was cut short."""
        if not (self._mix.tools or self._bound.surface.sub_agent_tools):
            self.finished.errors.append(NOTHING_BOUND)
            return ()
        request = self._dispatch_request()
        check = StreamCheck(request, self._bound.surface.fan_out_cap)
        with self._step("dispatch"):
            await (self._unary if self._mix.scenario is Scenario.UNARY else self._streamed)(request, check)
        self.finished.violations += check.violations
        if check.result is None:
            return None
        self.finished.outcomes += [_in_words(one) for one in check.result.outcomes]
        return check.result.outcomes

    async def _unary(self, request: pb.DispatchRequest, check: StreamCheck) -> None:
        unary = pb.DispatchUnaryRequest(dispatch=request)
        check.take_result((await self._rpcs.ask("DispatchUnary", unary, self._mix.deadline)).result)

    async def _streamed(self, request: pb.DispatchRequest, check: StreamCheck) -> None:
        began = self._clock()
        cancelled, left = "", False
        async with aclosing(self._rpcs.listen("Dispatch", request, self._mix.deadline)) as stream:
            async for response in stream:
                first = "first frame" not in self.finished.steps
                self.finished.steps.setdefault("first frame", self._clock() - began)
                check.take(response.frame)
                if first and self._choice.cancel and check.result is None:
                    cancelled = await self._cancelled(request)
                left = first and (self._choice.resume or self._choice.reconnect)
                if left:
                    break
                await self._read_slowly()
        if left and self._choice.reconnect:
            async with self._rpcs.reconnected() as rpcs:
                await self._resumed(rpcs, request, check)
        elif left:
            await self._resumed(self._rpcs, request, check)
        if not self.finished.errors:
            check.ended(cancelled)

    async def _read_slowly(self) -> None:
        if self._mix.slow_reader:
            await self._rpcs.pause(self._mix.slow_reader)

    async def _cancelled(self, request: pb.DispatchRequest) -> str:
        """Cancel one call; return its id, or nothing if it had settled before."""
        call_id = self._choice.chance.choice([one.call_id for one in request.calls])
        cancel = pb.CancelCallRequest(
            surface_token=request.surface_token, dispatch_id=request.dispatch_id, call_id=call_id
        )
        answer = pb.CancelCallResponse()
        with self._step("cancel"):
            answer = await self._rpcs.ask("CancelCall", cancel, self._mix.deadline)
        return call_id if answer.cancelled else ""

    async def _resumed(self, rpcs: Rpcs, request: pb.DispatchRequest, check: StreamCheck) -> None:
        check.resumed()
        resume = pb.ResumeDispatchRequest(
            surface_token=request.surface_token, dispatch_id=request.dispatch_id, after_sequence=check.sequence
        )
        with self._step("resume"):
            async with aclosing(rpcs.listen("ResumeDispatch", resume, self._mix.deadline)) as stream:
                async for response in stream:
                    check.take(response.frame)
                    await self._read_slowly()

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Measure an RPC, and note its failure."""
        began = self._clock()
        try:
            yield
        except grpc.RpcError as error:
            self.over |= _no_turn_after(name, error)
            self.finished.errors.append(f"{name} {status_and_reason(error)}")
        finally:
            self.finished.steps[name] = self._clock() - began

    def _bind_request(self) -> pb.BindTurnRequest:
        return pb.BindTurnRequest(
            turn_id=f"load-{self._name}",
            episode_id=f"load-episode-{self._name}",
            principal=self._choice.principal,
            source=pb.TURN_SOURCE_CHAT,
            orchestrator_id=self._mix.orchestrator_id,
            locale="en-US",
        )

    def _dispatch_request(self) -> pb.DispatchRequest:
        tools = tools_for(self._choice, [one.name for one in self._bound.surface.sub_agent_tools], self._mix.tools)
        return pb.DispatchRequest(
            surface_token=self._bound.surface_token,
            binding_digest=self._bound.surface.binding_digest,
            dispatch_id=f"load-dispatch-{self._name}",
            calls=[
                pb.ToolCall(
                    call_id=f"call-{place}", tool_name=tool, arguments_json=arguments_for(self._mix, self._choice)
                )
                for place, tool in enumerate(tools)
            ],
            declared_intent_count=len(set(tools)),
            task_prompt=TASK,
            on_disconnect=pb.ON_DISCONNECT_CONTINUE
            if self._choice.resume or self._choice.reconnect
            else pb.ON_DISCONNECT_CANCEL,
        )


def _no_turn_after(step: str, error: grpc.RpcError) -> bool:
    """Whether a refusal says that no turn is open: of a bind, any; of an end, one that is not for the moment only."""
    if reason_of(error) == UNEXPLAINED:
        return False
    return step == "bind" or (step == "end" and status_of(error) not in FOR_NOW)


def _in_words(outcome: outcome_pb2.CallOutcome) -> str:
    name = _name_of(outcome_pb2.Outcome, outcome.outcome, "OUTCOME_")
    if outcome.outcome == outcome_pb2.OUTCOME_SUCCEEDED:
        return name
    return f"{name} {_name_of(error_reason_pb2.ErrorReason, outcome.status.reason, 'ERROR_REASON_')}"


def _name_of(enum: Any, number: int, prefix: str) -> str:
    """Return the name without its prefix; of a value that this version does not know, the number."""
    return enum.Name(number).removeprefix(prefix) if number in enum.values() else str(number)
