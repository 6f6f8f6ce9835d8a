"""The consumer-agents: one per turn, with everything that goes wrong on their side."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sidecar.adapters.virtual_time import Trace, VirtualLoop
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.frames import DispatchResult, Frame
from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.executing.records import ChildOpened
from sidecar.core.identifiers import CallId, ChildId, DispatchId, EpisodeId, Principal, TurnId
from sidecar.operations.ports import ListenerClosed
from sidecar.operations.process.turn_assembly import Operations
from sidecar.operations.requests import (
    BindTurnRequest,
    CancelRequest,
    CloseChildRequest,
    DispatchRequest,
    EndTurnRequest,
    Integration,
    JoinPolicy,
    ResumeRequest,
    TurnSource,
    Verdict,
)
from sidecar.operations.turn.bind_turn import Bound
from sidecar.operations.turn.deliver_frames import deliver_frames
from sidecar.operations.turn.dispatch_calls import DispatchHandle
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.turn_ends import TurnClosed
from tests.support.simulation.schedule import Act, Action, DispatchSpec, Ending, TurnSpec

TRIES = 3


@dataclass(slots=True)
class Asked:
    """One request and its answer: a value, or the error that refused it.

    Attributes:
        about: the request itself, if the checks need it.
        answered_at: None if the client left before the answer.
        over_at: when it was answered, or the client left.
        unclear: seconds after that within which the sidecar may not know that the client has left.
    """

    what: str
    of: str
    detail: str
    asked_at: float
    about: Any = None
    answered_at: float | None = None
    over_at: float = float("inf")
    unclear: float = 0.0
    answer: Any = None
    refused: SubagentsError | None = None


@dataclass(slots=True)
class Listener:
    """One stream of a dispatch, as its reader saw it. `unclear`: as in `Asked`."""

    dispatch_id: str
    after: int
    slow: float
    frames: list[tuple[float, Frame]] = field(default_factory=list)
    began_at: float = 0.0
    left_at: float | None = None
    cut: bool = False
    unclear: float = 0.0

    @property
    def result(self) -> DispatchResult | None:
        """The result, if it came."""
        return self.frames[-1][1].result if self.frames else None


@dataclass(slots=True)
class Watched:
    """Everything that clients saw of one world."""

    loop: VirtualLoop
    trace: Trace
    counted: Counter[str]
    asked: list[Asked] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)
    bound: dict[str, Bound] = field(default_factory=dict)
    turns: dict[str, Turn | None] = field(default_factory=dict)
    opened: Callable[[], list[ChildOpened]] = list

    async def ask(
        self, what: str, of: str, call: Callable[[], Awaitable[Any]], detail: str = "", about: Any = None
    ) -> Any:
        """Do one request; an error of our tree is an answer, anything else is a defect and goes on."""
        asked = Asked(what, of, detail, self.loop.time(), about)
        self.asked.append(asked)
        try:
            asked.answer = await call()
        except SubagentsError as refused:
            asked.refused = refused
            self.counted[f"refused: {refused.reason}"] += 1
        finally:
            asked.over_at = self.loop.time()
        asked.answered_at = asked.over_at
        return asked.answer


class Stream:
    """A stream to a reader that may be slow, or gone."""

    grace = timedelta(0)

    def __init__(self, watched: Watched, listener: Listener) -> None:
        """Begin with nothing sent."""
        self._watched = watched
        self._listener = listener

    async def send(self, frame: Frame) -> None:
        """Let the reader have one frame, at its pace."""
        now = self._watched.loop.time()
        if self._listener.left_at is not None:
            raise ListenerClosed
        self._listener.frames.append((now, frame))
        sequences = [event.sequence for event in frame.events]
        self._watched.trace.add(now, f"frame {self._listener.dispatch_id} {sequences} {frame.result is not None}")
        if self._listener.slow:
            self._watched.counted["client: slow reader"] += 1
            await asyncio.sleep(self._listener.slow)


class Client:
    """The client of one turn."""

    def __init__(self, spec: TurnSpec, operations: Operations, watched: Watched) -> None:
        """Join the parts."""
        self._spec = spec
        self._do = operations
        self._watched = watched
        self._loop = watched.loop
        self._requests: dict[str, DispatchRequest] = {}

    async def run(self) -> None:
        """Bind, dispatch, end."""
        await self._until(self._spec.bind_at)
        request = BindTurnRequest(
            TurnId(self._spec.turn_id),
            EpisodeId(self._spec.episode_id),
            Principal(self._spec.principal),
            TurnSource.CHAT,
            locale="de-DE",
        )
        bound = await self._watched.ask("bind", self._spec.turn_id, lambda: self._do.bind_turn(request))
        if bound is None:
            return
        self._watched.bound[self._spec.turn_id] = bound
        self._watched.turns[self._spec.turn_id] = self._do.turns.known(request.turn_id)
        working = [self._start(self._dispatch(each, bound), each.dispatch_id) for each in self._spec.dispatches]
        if self._spec.ending in (Ending.EARLY, Ending.LOST):
            self._watched.counted[f"client: {self._spec.ending}"] += 1
            await self._until(self._spec.end_at)
        else:
            await asyncio.gather(*working)
        if self._spec.ending is Ending.LOST:
            for task in working:
                task.cancel()
        else:
            await self._end(bound)
        await asyncio.gather(*working, return_exceptions=True)

    def _start(self, work: Any, name: str) -> asyncio.Task[Any]:
        return self._loop.create_task(work, name=f"client {name}")

    async def _read_slowly(self, slow: float) -> None:
        self._watched.counted["client: slow reader"] += 1
        await asyncio.sleep(slow)

    async def _until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self._loop.time()))

    # --- dispatching

    async def _dispatch(self, spec: DispatchSpec, bound: Bound) -> None:
        await asyncio.sleep(spec.send_at)
        self._requests[spec.dispatch_id] = self._request(spec, bound)
        first = self._start(self._send(spec, self._requests[spec.dispatch_id]), f"{spec.dispatch_id} send")
        streams, began = [first], self._loop.time()
        for number, action in enumerate(spec.actions):
            await self._until(began + action.after)
            more = self._act(spec, action, streams)
            if more is not None:
                streams.append(self._start(more, f"{spec.dispatch_id} act {number}"))
        try:
            await asyncio.gather(*streams, return_exceptions=True)
        finally:
            for stream in streams:
                stream.cancel()

    def _request(self, spec: DispatchSpec, bound: Bound) -> DispatchRequest:
        return request_of(spec, bound)

    async def _send(self, spec: DispatchSpec, request: DispatchRequest, slow: float | None = None) -> None:
        left = None if spec.time_left is None else timedelta(seconds=spec.time_left)
        detail = "first" if slow is None else "repeat"
        if slow is None:
            self._watched.counted["client: deadline too short"] += spec.time_left is not None and spec.time_left < 0.27
        begun: DispatchHandle | None = await self._watched.ask(
            "dispatch",
            request.dispatch_id,
            lambda: self._do.dispatch_calls.begin(request, left),
            detail,
            (request, left),
        )
        if begun is not None:
            await self._listen(begun, 0, spec.slow if slow is None else slow)

    async def _listen(self, begun: DispatchHandle, after: int, slow: float) -> None:
        listener = Listener(begun.dispatch.dispatch_id, after, slow, began_at=self._loop.time())
        self._watched.listeners.append(listener)
        try:
            await deliver_frames(begun, after, Stream(self._watched, listener))
        except asyncio.CancelledError:
            listener.cut = True
            raise
        finally:
            listener.left_at = self._loop.time()

    def _act(self, spec: DispatchSpec, action: Action, streams: list[asyncio.Task[Any]]) -> Any:
        self._watched.counted[f"client: {action.act}"] += 1
        request = self._requests[spec.dispatch_id]
        call = spec.calls[action.number % len(spec.calls)]
        match action.act:
            case Act.DISCONNECT:
                streams[action.number % len(streams)].cancel()
                work = None
            case Act.RESUME:
                work = self._resume(request, action)
            case Act.REPEAT:
                work = self._send(spec, request, action.slow)
            case Act.REPEAT_OTHERWISE:
                work = self._send(spec, _other(request), action.slow)
            case Act.CANCEL_CALL:
                work = self._cancel(request, call.call_id)
            case Act.CANCEL_UNKNOWN:
                work = self._cancel(request, "nobody")
            case Act.CLOSE_CHILD:
                work = self._close(request, call.call_id)
        return work

    async def _resume(self, request: DispatchRequest, action: Action) -> None:
        resume = ResumeRequest(request.surface_token, request.dispatch_id, action.number)
        begun = await self._watched.ask("resume", request.dispatch_id, lambda: self._do.resume_dispatch(resume))
        if begun is not None:
            await self._listen(begun, action.number, action.slow)

    async def _cancel(self, request: DispatchRequest, call_id: str) -> None:
        cancel = CancelRequest(request.surface_token, request.dispatch_id, CallId(call_id))
        await self._watched.ask("cancel", request.dispatch_id, lambda: self._do.cancel_call(cancel), call_id)

    async def _close(self, request: DispatchRequest, call_id: str) -> None:
        child = next((each for each in self._children() if each[0] == (request.dispatch_id, call_id)), None)
        verdict = Integration(ChildId(child[1] if child else "child-nobody"), Verdict.ACCEPTED)
        closing = CloseChildRequest(request.surface_token, verdict)
        for _ in range(TRIES):
            await self._watched.ask("close", request.dispatch_id, lambda: self._do.close_child(closing), call_id)
            if not isinstance(self._watched.asked[-1].refused, StoreUnavailable):
                return

    def _children(self) -> list[tuple[tuple[str, str], str]]:
        """Return call and id of this turn's children that are on record."""
        return [
            ((opened.dispatch_id, opened.call_id), opened.child_id)
            for opened in self._watched.opened()
            if opened.turn_id == self._spec.turn_id
        ]

    # --- ending

    async def _end(self, bound: Bound) -> None:
        ending, token = self._spec.ending, bound.surface_token
        if ending is not Ending.AFTER_ALL:
            self._watched.counted[f"client: end {ending}"] += 1
        if ending is Ending.UNKNOWN_CHILD:
            unknown = (Integration(ChildId("child-nobody"), Verdict.ACCEPTED),)
            await self._ask_end(EndTurnRequest(token, unknown), 1)
        rejected = [child for _, child in self._children()][:1] if ending is Ending.REJECTING else []
        verdicts = tuple(Integration(ChildId(child), Verdict.REJECTED, "no use") for child in rejected)
        request = EndTurnRequest(token, verdicts, "there you are", 2)
        if ending is Ending.TWICE:
            await asyncio.gather(self._ask_end(request, TRIES), self._ask_end(request, TRIES))
            await self._ask_end(EndTurnRequest(token, (), "something else"), 1)
        else:
            await self._ask_end(request, TRIES)

    async def _ask_end(self, request: EndTurnRequest, tries: int) -> None:
        turn = self._spec.turn_id
        for _ in range(tries):
            closed: tuple[TurnClosed, bool] | None = await self._watched.ask(
                "end", turn, lambda: self._do.end_turn(request), request.narration, request
            )
            if closed is not None:
                return


def request_of(spec: DispatchSpec, bound: Bound) -> DispatchRequest:
    """Return the request of a planned dispatch."""
    return DispatchRequest(
        surface_token=bound.surface_token,
        binding_digest=bound.surface.binding_digest,
        dispatch_id=DispatchId(spec.dispatch_id),
        calls=tuple(ToolCall(CallId(call.call_id), call.tool_name, call.arguments_json) for call in spec.calls),
        prior_context=spec.prior_context,
        on_disconnect=spec.on_disconnect,
        continue_for=None if spec.continue_for is None else timedelta(seconds=spec.continue_for),
        join=JoinPolicy(
            spec.min_success,
            spec.max_parallel,
            None if spec.join_timeout is None else timedelta(seconds=spec.join_timeout),
        ),
    )


def _other(request: DispatchRequest) -> DispatchRequest:
    """Return another request with the same id."""
    return DispatchRequest(request.surface_token, request.binding_digest, request.dispatch_id, request.calls, 3)
