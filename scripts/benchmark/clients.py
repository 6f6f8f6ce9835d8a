"""What the load generator sends, and what it takes for a right answer. The same code reads both servers."""

import asyncio
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import uuid4

import grpc

from scripts.benchmark.bare_server import BIND, ECHO, STREAM
from scripts.benchmark.definitions import slots
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2

SERVICE: Final = "/subagents.dispatch.v1.DispatchService"
TIMEOUT_SECONDS: Final = 30.0
DISPATCHES_PER_TURN: Final = 4
AT_ONCE: Final = 16
END_AGAIN: Final = 60
"""Twenty sidecars end their turns at the same moment: the last ones wait longest for the database."""
END_AGAIN_SECONDS: Final = 1.0
LEAST_TURNS: Final = 4 * AT_ONCE
"""So many, or one for each dispatch: two dispatches of eight that run in one turn at once would be over its cap."""
TASK_PROMPT: Final = "Find me something for the weekend, and tell me whether my points are enough for it."
NARRATION: Final = "Here is what I found."
ARGUMENTS: Final = '{"request":"Find three offers for running shoes and say until when they hold.","intent_count":1}'

Request = TypeVar("Request")
Metadata = tuple[tuple[str, str], ...]


class WrongAnswer(Exception):
    """A server answered something else than it should; nothing is measured then."""


@dataclass(frozen=True, slots=True)
class Job:
    """One prepared dispatch of `children` calls."""

    request: pb.DispatchRequest
    children: int


class BareClient:
    """Calls a bare server.

    Args:
        channel: to it.
        metadata: sent along with a bind, as the sidecar wants it: the same bytes.
    """

    def __init__(self, channel: grpc.aio.Channel, metadata: Metadata = ()) -> None:
        self._metadata = metadata
        send = pb.DispatchRequest.SerializeToString
        self._stream = channel.unary_stream(STREAM, send, pb.DispatchResponse.FromString)
        self._echo = channel.unary_unary(ECHO, send, pb.DispatchRequest.FromString)
        self._bind = channel.unary_unary(BIND, pb.BindTurnRequest.SerializeToString, pb.BindTurnResponse.FromString)

    async def stream(self, job: Job) -> int:
        """Have the made-up dispatch streamed."""
        return await read_messages(self._stream(job.request, timeout=TIMEOUT_SECONDS), job.children)

    async def echo(self, job: Job) -> int:
        """Have the request sent back."""
        await self._echo(job.request, timeout=TIMEOUT_SECONDS)
        return 1

    async def bind(self, request: pb.BindTurnRequest) -> int:
        """Have the made-up surface sent."""
        await self._bind(request, timeout=TIMEOUT_SECONDS, metadata=self._metadata)
        return 1


class SidecarClient:
    """Calls the sidecar. Binding and ending turns happens outside of what is measured, unless it is what is measured.

    Args:
        channel: to the sidecar.
        secret: its boot secret.
    """

    def __init__(self, channel: grpc.aio.Channel, secret: str) -> None:
        self.metadata: Metadata = ((BOOT_SECRET_KEY, secret),)
        self._dispatch = channel.unary_stream(
            f"{SERVICE}/Dispatch", pb.DispatchRequest.SerializeToString, pb.DispatchResponse.FromString
        )
        self._bind = channel.unary_unary(
            f"{SERVICE}/BindTurn", pb.BindTurnRequest.SerializeToString, pb.BindTurnResponse.FromString
        )
        self._end = channel.unary_unary(
            f"{SERVICE}/EndTurn", pb.EndTurnRequest.SerializeToString, pb.EndTurnResponse.FromString
        )
        self.open: list[str] = []

    async def dispatch(self, job: Job) -> int:
        """Run the calls."""
        return await read_messages(
            self._dispatch(job.request, timeout=TIMEOUT_SECONDS, metadata=self.metadata), job.children
        )

    async def frames(self, job: Job) -> pb.DispatchFrame:
        """Run the calls and return all frames as one."""
        whole = pb.DispatchFrame()
        async for message in self._dispatch(job.request, timeout=TIMEOUT_SECONDS, metadata=self.metadata):
            whole.MergeFrom(message.frame)
        return whole

    async def bind(self, request: pb.BindTurnRequest) -> int:
        """Bind a turn and remember its token."""
        await self.bound(request)
        return 1

    async def bound(self, request: pb.BindTurnRequest) -> pb.BindTurnResponse:
        """Bind a turn, remember its token and return its surface."""
        answer: pb.BindTurnResponse = await self._bind(request, timeout=TIMEOUT_SECONDS, metadata=self.metadata)
        self.open.append(answer.surface_token)
        return answer

    async def prepared(
        self, kind: str, children: int, count: int, per_turn: int = DISPATCHES_PER_TURN, least: int = LEAST_TURNS
    ) -> Sequence[Job]:
        """Bind as many fresh turns as `count` dispatches need and return the dispatches, turn after turn in rotation.

        A turn gets at most 4 dispatches: what a turn holds grows with each, and real ones have few. There are at least
        `least` turns.
        """
        bound = await self._new_turns(kind, max(-(-count // per_turn), min(count, least)))
        return [job(bound[number % len(bound)], kind, children) for number in range(count)]

    async def dispatched(self, kind: str, count: int) -> Sequence[pb.EndTurnRequest]:
        """Bind as many turns, carry out all of the dispatches that each may have, and return what ends them."""
        bound = await self._new_turns(kind, count)
        for _ in range(DISPATCHES_PER_TURN):
            for part in _parts([job(each, kind, 1) for each in bound]):
                await asyncio.gather(*map(self.dispatch, part))
        self.open.clear()
        return [pb.EndTurnRequest(surface_token=each.surface_token, narration=NARRATION) for each in bound]

    async def end(self, request: pb.EndTurnRequest) -> int:
        """End a turn."""
        await self._end(request, timeout=TIMEOUT_SECONDS, metadata=self.metadata)
        return 1

    async def end_all(self) -> None:
        """End every turn that was bound."""
        ending, self.open = self.open, []
        for part in _parts(ending):
            await asyncio.gather(*map(self._ended, part))

    async def _new_turns(self, kind: str, count: int) -> Sequence[pb.BindTurnResponse]:
        turns = [turn_request(kind) for _ in range(count)]
        return [one for part in _parts(turns) for one in await asyncio.gather(*map(self.bound, part))]

    async def _ended(self, token: str) -> None:
        """End a turn; what the store could not take in time is asked for again, which is safe to repeat."""
        request = pb.EndTurnRequest(surface_token=token, narration=NARRATION)
        for left in range(END_AGAIN, -1, -1):
            try:
                await self._end(request, timeout=TIMEOUT_SECONDS, metadata=self.metadata)
            except grpc.aio.AioRpcError as refused:
                if refused.code() is not grpc.StatusCode.UNAVAILABLE or not left:
                    raise WrongAnswer(f"a turn cannot be ended: {refused.details()}") from None
                await asyncio.sleep(END_AGAIN_SECONDS)  # sooner, a sidecar without a connection would not try one
            else:
                return


def turn_request(kind: str) -> pb.BindTurnRequest:
    """Return a request for a new turn of a new episode."""
    return pb.BindTurnRequest(
        turn_id=uuid4().hex,
        episode_id=uuid4().hex,
        principal="user-4711",
        source=pb.TURN_SOURCE_CHAT,
        orchestrator_id=kind,
        locale="en-US",
        location="Madison, WI",
    )


def job(bound: pb.BindTurnResponse, kind: str, children: int) -> Job:
    """Return a dispatch of so many calls in a bound turn."""
    calls = [
        pb.ToolCall(call_id=f"call_{uuid4().hex}", tool_name=f"ask_{slot}", arguments_json=ARGUMENTS)
        for slot in slots(kind)[:children]
    ]
    request = pb.DispatchRequest(
        surface_token=bound.surface_token,
        binding_digest=bound.surface.binding_digest,
        dispatch_id=uuid4().hex,
        calls=calls,
        declared_intent_count=children,
        task_prompt=TASK_PROMPT,
        on_disconnect=pb.ON_DISCONNECT_CANCEL,
    )
    return Job(request, children)


async def read_messages(messages: AsyncIterable[pb.DispatchResponse], children: int) -> int:
    """Read a stream to its end and return how many messages it had.

    Raises:
        WrongAnswer: not every call succeeded.
    """
    count, last = 0, None
    async for message in messages:
        count, last = count + 1, message
    outcomes = last.frame.result.outcomes if last is not None else ()
    if len(outcomes) != children or any(one.outcome != outcome_pb2.OUTCOME_SUCCEEDED for one in outcomes):
        raise WrongAnswer(f"{children} calls should have succeeded; the outcomes are {outcomes}")
    return count


def _parts(whole: Sequence[Request]) -> Sequence[Sequence[Request]]:
    return [whole[start : start + AT_ONCE] for start in range(0, len(whole), AT_ONCE)]
