"""Clients that do not give up: each request is repeated, here or elsewhere, until it is answered for good."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.frames import Frame
from sidecar.core.dispatching.questions import Answerer, Answering, Decision
from sidecar.core.errors import SubagentsError
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
from tests.support.simulation.clients import Listener
from tests.support.simulation.record.fleet import Fleet
from tests.support.simulation.record.processes import ConnectionLost
from tests.support.simulation.record.schedule import Close, RecordDispatch, RecordTurn

GIVES_UP_AT: Final = 18.0
ONE_ANSWER: Final = 3.0
"""Seconds that a client waits for one answer; streams have none."""
AGAIN: Final = frozenset({"STORE_UNAVAILABLE", "RECORD_CONFLICT", "RUNS_ELSEWHERE", "DRAINING", "ADMISSION_REFUSED"})
BIND_AGAIN: Final = frozenset({"SURFACE_TOKEN_EXPIRED"})
Work = Callable[[Operations], Coroutine[Any, Any, Any]]


@dataclass(slots=True)
class Told:
    """One request and what came of it at one sidecar; `reason` of a refusal, or `LOST` for a broken connection."""

    what: str
    turn_id: str
    of: str
    instance: str
    asked_at: float
    over_at: float = float("inf")
    answer: Any = None
    reason: str = ""
    request: Any = None


@dataclass(slots=True)
class Heard(Listener):
    """One stream, and which sidecar it came from."""

    instance: str = ""


@dataclass(slots=True)
class Watch:
    """Everything that clients saw."""

    told: list[Told] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    gave_up: list[str] = field(default_factory=list)
    settled: dict[str, str] = field(default_factory=dict)


class GaveUp(Exception):
    """The client's time is up."""


class PersistentClient:
    """The client of one turn."""

    def __init__(self, spec: RecordTurn, fleet: Fleet, outside: tuple[VirtualLoop, Watch, Counter[str]]) -> None:
        """Join the parts."""
        self._spec = spec
        self._fleet = fleet
        self._loop, self._watch, self._counted = outside
        self._chance = Random(f"client {spec.turn_id} {spec.bind_at}")
        self._place = spec.place
        self._bound: Bound | None = None
        self._answering: dict[str, DispatchRequest] = {}

    async def run(self) -> None:
        """Bind, dispatch, close, end."""
        spec = self._spec
        await self._until(spec.bind_at)
        try:
            await self._bind()
            working = [self._start(self._dispatch(each), each.dispatch_id) for each in spec.dispatches]
            working += [
                self._start(self._cancel(each, *cancel), f"cancels in {each.dispatch_id}")
                for each in spec.dispatches
                for cancel in each.cancels
            ]
            if spec.close in (Close.EARLY, Close.LOST):
                await self._until(spec.stops_at)
            else:
                await asyncio.gather(*working)
            if spec.close is Close.LOST:
                self._counted["client: lost"] += 1
                for task in working:
                    task.cancel()
            else:
                await self._end()
            await asyncio.gather(*working, return_exceptions=True)
        except GaveUp as late:
            self._watch.gave_up.append(f"{spec.turn_id}: {late}")

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return self._loop.create_task(work, name=f"client {name}")

    async def _until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self._loop.time()))

    # --- requests

    async def _insist(self, what: str, of: str, work: Work, request: Any = None) -> Told:
        """Ask until there is an answer, or a refusal that stands."""
        while True:
            told = await self._ask(what, of, work, request)
            if not told.reason or not await self._may_ask_again(told):
                return told

    async def _ask(self, what: str, of: str, work: Work, request: Any, patience: float = ONE_ANSWER) -> Told:
        sidecar = self._fleet.at(self._place)
        told = Told(what, self._spec.turn_id, of, sidecar.instance, self._loop.time(), request=request)
        self._watch.told.append(told)
        try:
            told.answer = await sidecar.process.ask(work(sidecar.operations), f"{what} {of}", patience)
        except ConnectionLost:
            told.reason = "LOST"
        except SubagentsError as refused:
            told.reason = refused.reason
        finally:
            told.over_at = self._loop.time()
        if told.reason:
            self._counted[f"client told: {told.reason}"] += 1
        return told

    async def _may_ask_again(self, told: Told) -> bool:
        """Wait a little and perhaps turn elsewhere; False if the refusal stands."""
        if told.reason not in AGAIN | BIND_AGAIN | {"LOST"}:
            return False
        if self._loop.time() > GIVES_UP_AT:
            raise GaveUp(f"{told.what} {told.of}: {told.reason}")
        await asyncio.sleep(self._chance.uniform(0.05, 0.6))
        if self._fleet.places > 1 and (told.reason == "LOST" or self._chance.random() < self._spec.fickle):
            self._counted["client: goes elsewhere"] += 1
            self._place = 1 - self._place
        if told.reason in BIND_AGAIN and told.what != "bind":
            await self._bind()
        return True

    async def _bind(self) -> None:
        spec = self._spec
        request = BindTurnRequest(
            TurnId(spec.turn_id), EpisodeId(spec.episode_id), Principal(spec.principal), TurnSource.CHAT
        )
        told = await self._insist("bind", spec.turn_id, lambda do: do.bind_turn(request), request)
        if told.answer is None:
            raise GaveUp(f"cannot bind: {told.reason}")
        self._counted["client: binds again"] += self._bound is not None
        self._bound = told.answer

    # --- dispatching

    async def _dispatch(self, spec: RecordDispatch) -> None:
        """Have a dispatch carried out, and listen until its result is there, or it cannot come."""
        await asyncio.sleep(spec.send_at)
        listener, begun, leaves = Heard(spec.dispatch_id, 0, 0.0), False, list(spec.leaves)
        while listener.result is None:
            after = _newest(listener)
            listener = Heard(spec.dispatch_id, 0, 0.0, began_at=self._loop.time())
            resumes = begun and self._chance.random() < 0.6
            listener.after = after if resumes else 0
            if begun:
                self._counted["client: resumes" if resumes else "client: repeats"] += 1
            told = await self._listen(spec, listener, leaves, resumes=resumes)
            begun = (begun or bool(listener.frames)) and told.reason != "UNKNOWN_DISPATCH"
            if listener.result is not None or told.reason == "TURN_ENDED":
                break
            if told.reason == "UNKNOWN_DISPATCH":
                continue
            if told.reason and not await self._may_ask_again(told):
                break
        self._watch.settled[spec.dispatch_id] = "told" if listener.result is not None else told.reason or "told"

    async def _listen(self, spec: RecordDispatch, listener: Heard, leaves: list[float], *, resumes: bool) -> Told:
        bound = self._bound
        assert bound is not None
        request = self._answering.get(spec.dispatch_id) or _request_of(spec, bound)
        request = replace(request, surface_token=bound.surface_token, binding_digest=bound.surface.binding_digest)
        request = await self._with_answers(spec, request)
        self._watch.heard.append(listener)
        sidecar = self._fleet.at(self._place)
        listener.instance = sidecar.instance
        work: Work = lambda do: _serve(do, request, listener, self._loop, resumes=resumes)  # noqa: E731  asked once
        patience = leaves.pop(0) if leaves else 8.0
        told = await self._ask("resume" if resumes else "dispatch", spec.dispatch_id, work, request, patience)
        listener.left_at = self._loop.time()
        return told

    async def _cancel(self, spec: RecordDispatch, call_id: str, after: float) -> None:
        """Cancel a call, and insist on an answer."""
        await asyncio.sleep(spec.send_at + after)
        dispatch_id = DispatchId(spec.dispatch_id)

        def work(do: Operations) -> Coroutine[Any, Any, Any]:
            assert self._bound is not None
            return do.cancel_call(CancelRequest(self._bound.surface_token, dispatch_id, CallId(call_id)))

        self._counted["client: cancels a call"] += 1
        told = await self._insist("cancel", spec.dispatch_id, work, call_id)
        self._counted["a cancel was acknowledged"] += bool(told.answer)

    async def _with_answers(self, spec: RecordDispatch, request: DispatchRequest) -> DispatchRequest:
        """Return the request with answers to what other calls were told; the same each time that it is sent."""
        if spec.dispatch_id in self._answering or not any(call.answers for call in spec.calls):
            return request
        calls = list(request.calls)
        for place, call in enumerate(spec.calls):
            receipt = await self._receipt(call.answers.of) if call.answers else None
            if call.answers and receipt:
                decision = Decision.APPROVED if call.answers.approved else Decision.DECLINED
                by = Answerer.ORCHESTRATOR if call.answers.by_model else Answerer.USER
                calls[place] = replace(calls[place], answering=Answering(receipt, "", decision, by))
                self._counted["client: answers"] += 1
        self._answering[spec.dispatch_id] = replace(request, calls=tuple(calls))
        return self._answering[spec.dispatch_id]

    async def _receipt(self, key: str) -> str | None:
        """Return the receipt of the question that a call was told of; None if there is none in time."""
        dispatch_id, _, call_id = key.rpartition(".")
        for _ in range(20):
            for heard in self._watch.heard:
                for outcome in heard.result.outcomes if heard.dispatch_id == dispatch_id and heard.result else ():
                    if outcome.call_id == call_id:
                        return outcome.question.receipt if outcome.question else None
            await asyncio.sleep(0.2)
        return None

    # --- ending

    async def _end(self) -> None:
        spec = self._spec
        if spec.closes is not None:
            for child_id in self._told_children():
                await self._close(child_id, accepted=spec.closes)
        if spec.binds_again_at is not None:
            await self._until(spec.binds_again_at)
            await self._bind()
        narration = "there you are"
        await self._end_with(narration)
        if spec.close is Close.TWICE:
            self._place = self._fleet.places - 1 - self._place
            await self._end_with(narration)

    async def _end_with(self, narration: str) -> None:
        def work(do: Operations) -> Coroutine[Any, Any, Any]:
            assert self._bound is not None
            return do.end_turn(EndTurnRequest(self._bound.surface_token, (), narration))

        await self._insist("end", self._spec.turn_id, work, narration)

    async def _close(self, child_id: str, *, accepted: bool) -> None:
        verdict = Integration(ChildId(child_id), Verdict.ACCEPTED if accepted else Verdict.REJECTED)

        def work(do: Operations) -> Coroutine[Any, Any, Any]:
            assert self._bound is not None
            return do.close_child(CloseChildRequest(self._bound.surface_token, verdict))

        self._counted["client: closes a child"] += 1
        await self._insist("close", child_id, work, verdict)

    def _told_children(self) -> list[str]:
        mine = {each.dispatch_id for each in self._spec.dispatches}
        return list(
            dict.fromkeys(
                outcome.child_id
                for heard in self._watch.heard
                if heard.dispatch_id in mine and heard.result is not None
                for outcome in heard.result.outcomes
                if outcome.child_id is not None
            )
        )


class _Stream:
    """A stream over the network: what is sent has arrived, unless the reader has left."""

    grace = timedelta(0)

    def __init__(self, listener: Heard, loop: VirtualLoop) -> None:
        self._listener = listener
        self._loop = loop

    async def send(self, frame: Frame) -> None:
        """Let the reader have one frame."""
        if self._listener.left_at is not None:
            raise ListenerClosed
        self._listener.frames.append((self._loop.time(), frame))


async def _serve(
    do: Operations, request: DispatchRequest, listener: Heard, loop: VirtualLoop, *, resumes: bool
) -> None:
    """What a sidecar's servicer does for one stream."""
    if resumes:
        resume = ResumeRequest(request.surface_token, request.dispatch_id, listener.after)
        begun = await do.resume_dispatch(resume)
    else:
        begun = await do.dispatch_calls.begin(request, None)
    await deliver_frames(begun, listener.after, _Stream(listener, loop))


def _newest(listener: Heard) -> int:
    """Return the sequence up to which a listener has been told."""
    newest = 0
    for _, frame in listener.frames:
        newest = frame.snapshot.sequence if frame.snapshot is not None else newest
        newest = frame.events[-1].sequence if frame.events else newest
    return newest


def _request_of(spec: RecordDispatch, bound: Bound) -> DispatchRequest:
    return DispatchRequest(
        surface_token=bound.surface_token,
        binding_digest=bound.surface.binding_digest,
        dispatch_id=DispatchId(spec.dispatch_id),
        calls=tuple(ToolCall(CallId(call.call_id), call.tool_name, call.arguments_json) for call in spec.calls),
        on_disconnect=spec.on_disconnect,
        continue_for=None if spec.continue_for is None else timedelta(seconds=spec.continue_for),
        join=JoinPolicy(None, spec.max_parallel, None),
    )
