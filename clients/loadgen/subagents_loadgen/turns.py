"""The operations: real RPCs through generated stubs, each answer checked."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import grpc

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc, outcome_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents_loadgen.failures import status_and_reason
from subagents_loadgen.operation import Finished
from subagents_loadgen.plan import Choice, Mix, Scenario, choice_of, tools_for
from subagents_loadgen.promises import StreamCheck, bind_violations, end_violations

Metadata = Sequence[tuple[str, str]]
NARRATION = "Here is what was found."
NOTHING_BOUND = "dispatch - THE_SURFACE_IS_EMPTY"
"""Noted like a failed RPC, as the operation could not do what it was to do."""
TASK = "A message of the load generator."


@dataclass(frozen=True, slots=True)
class Connection:
    """Where requests go.

    Attributes:
        channels: used in turn; at least one.
        metadata: of every RPC.
    """

    channels: Sequence[grpc.aio.Channel]
    metadata: Metadata


class Turns:
    """Carries out operations of one scenario.

    Args:
        connection: where to.
        mix: what they consist of.
        seed: decides what each operation does.
        run: a word that is unique to the run; ids are made of it.
    """

    def __init__(self, connection: Connection, mix: Mix, seed: int, run: str) -> None:
        self._stubs = cycle([dispatch_pb2_grpc.DispatchServiceStub(one) for one in connection.channels])
        self._metadata = connection.metadata
        self._mix = mix
        self._seed = seed
        self._run = run

    async def carry_out(self, number: int) -> Finished:
        """Carry out operation `number`; whatever the server does wrong is in what is returned."""
        choice = choice_of(self._mix, self._seed, number)
        turn = _Turn(next(self._stubs), self._mix, choice, f"{self._run}-{number}", self._metadata)
        await turn.carry_out()
        return turn.finished


class _Turn:
    def __init__(
        self, stub: dispatch_pb2_grpc.DispatchServiceStub, mix: Mix, choice: Choice, name: str, metadata: Metadata
    ) -> None:
        self._stub = stub
        self._mix = mix
        self._choice = choice
        self._name = name
        self._metadata = metadata
        self._clock = asyncio.get_running_loop().time
        self._bound: pb.BindTurnResponse
        self.finished = Finished()

    async def carry_out(self) -> None:
        """Bind, dispatch and end; the end comes even when the dispatch failed, so that no turns pile up."""
        with self._step("bind"):
            self._bound = await self._stub.BindTurn(
                self._bind_request(), timeout=self._mix.deadline, metadata=self._metadata
            )
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
            ended = await self._stub.EndTurn(end, timeout=self._mix.deadline, metadata=self._metadata)
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
        response = await self._stub.DispatchUnary(
            pb.DispatchUnaryRequest(dispatch=request), timeout=self._mix.deadline, metadata=self._metadata
        )
        check.take_result(response.result)

    async def _streamed(self, request: pb.DispatchRequest, check: StreamCheck) -> None:
        began = self._clock()
        stream = self._stub.Dispatch(request, timeout=self._mix.deadline, metadata=self._metadata)
        cancelled = ""
        async for response in stream:
            first = "first frame" not in self.finished.steps
            self.finished.steps.setdefault("first frame", self._clock() - began)
            check.take(response.frame)
            if first and self._choice.cancel and check.result is None:
                cancelled = await self._cancelled(request)
            if first and self._choice.resume:
                stream.cancel()
                await self._resumed(request, check)
                break
        if not self.finished.errors:
            check.ended(cancelled)

    async def _cancelled(self, request: pb.DispatchRequest) -> str:
        """Cancel one call; return its id, or nothing if it had settled before."""
        call_id = self._choice.chance.choice([one.call_id for one in request.calls])
        cancel = pb.CancelCallRequest(
            surface_token=request.surface_token, dispatch_id=request.dispatch_id, call_id=call_id
        )
        answer = pb.CancelCallResponse()
        with self._step("cancel"):
            answer = await self._stub.CancelCall(cancel, timeout=self._mix.deadline, metadata=self._metadata)
        return call_id if answer.cancelled else ""

    async def _resumed(self, request: pb.DispatchRequest, check: StreamCheck) -> None:
        check.resumed()
        resume = pb.ResumeDispatchRequest(
            surface_token=request.surface_token, dispatch_id=request.dispatch_id, after_sequence=check.sequence
        )
        with self._step("resume"):
            stream = self._stub.ResumeDispatch(resume, timeout=self._mix.deadline, metadata=self._metadata)
            async for response in stream:
                check.take(response.frame)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Measure an RPC, and note its failure."""
        began = self._clock()
        try:
            yield
        except grpc.aio.AioRpcError as error:
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
                pb.ToolCall(call_id=f"call-{place}", tool_name=tool, arguments_json=self._mix.arguments_json)
                for place, tool in enumerate(tools)
            ],
            declared_intent_count=len(set(tools)),
            task_prompt=TASK,
            on_disconnect=pb.ON_DISCONNECT_CONTINUE if self._choice.resume else pb.ON_DISCONNECT_CANCEL,
        )


def _in_words(outcome: outcome_pb2.CallOutcome) -> str:
    name = _name_of(outcome_pb2.Outcome, outcome.outcome, "OUTCOME_")
    if outcome.outcome == outcome_pb2.OUTCOME_SUCCEEDED:
        return name
    return f"{name} {_name_of(error_reason_pb2.ErrorReason, outcome.status.reason, 'ERROR_REASON_')}"


def _name_of(enum: Any, number: int, prefix: str) -> str:
    """Return the name without its prefix; of a value that this version does not know, the number."""
    return enum.Name(number).removeprefix(prefix) if number in enum.values() else str(number)
