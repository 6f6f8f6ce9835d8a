"""`BoundTurn`, a bound turn: it dispatches the model's calls and ends the turn."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum, unique
from types import TracebackType
from typing import Final, Self

from subagents.dispatch.v1 import dispatch_pb2
from subagents_client import translate_ending
from subagents_client.asking.messages import answering_message
from subagents_client.dispatch_stream import DispatchCall, DispatchStream, RunningDispatch
from subagents_client.ending import ChildSummary, Integration, TurnEnd, Verdict
from subagents_client.outcomes import DispatchResult, ToolCall
from subagents_client.surface import Binding, Surface
from subagents_client.synthetic_outcomes import synthesised_result
from subagents_client.wire import Wire
from subagents_errors import SubagentsError


@unique
class OnDisconnect(StrEnum):
    """What happens to running calls when the client disconnects."""

    CANCEL = "cancel"
    CONTINUE = "continue"
    """They continue; `BoundTurn.resume` returns their outcomes."""
    CONTINUE_UNTIL = "continue_until"
    """They continue for at most `continue_for`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchContext:
    """The input that all sub-agents of one dispatch share, and the rule for their calls if the client disconnects.

    Attributes:
        prior_context: summary for sub-agents that the last dispatching turn did not call; at most 16 KiB.
        task_prompt: the user's message of this turn; at most 64 KiB; may be empty.
        declared_intent_count: number of intents that the model declared for the message; 0 if it declared none.
        on_disconnect: what happens to running calls when the client disconnects.
        continue_for: maximum time that the calls continue without the client; more than 0; only for `CONTINUE_UNTIL`.
    """

    prior_context: str = ""
    task_prompt: str = ""
    declared_intent_count: int = 0
    on_disconnect: OnDisconnect = OnDisconnect.CANCEL
    continue_for: timedelta = timedelta(0)


ABANDON: Final = timedelta(seconds=1)
"""Timeout of the request that ends a turn whose caller did not call `end`."""
NO_CONTEXT = DispatchContext()


class BoundTurn:
    """A bound turn. `SidecarClient.bind_turn` returns it; its surface never changes.

    Attributes:
        binding: the result of the bind, of which `surface` and `turn_id` are parts.
    """

    def __init__(self, wire: Wire, binding: Binding) -> None:
        self.binding = binding
        self._wire = wire
        self._started: dict[str, DispatchCall] = {}
        self._emitted = 0
        self._streams: dict[str, DispatchStream] = {}
        self._ending: dispatch_pb2.EndTurnRequest | None = None
        self._ended = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the turn if `end` has not ended it, also after an exception or a cancellation.

        Without a call of `end`, all known children get the verdict rejected. No `SubagentsError` is raised: if the
        sidecar does not answer within a second, it ends the abandoned turn later.
        """
        if self._ended:
            return
        results = [stream.known_result for stream in self._streams.values()]
        children = [outcome.child_id for result in results if result for outcome in result.outcomes if outcome.child_id]
        rejections = [Integration(child, Verdict.REJECTED, "the turn was abandoned") for child in children]
        with suppress(SubagentsError):
            await self._end(self._ending or self._end_request("", rejections, 0, ""), ABANDON)

    @property
    def running(self) -> Sequence[RunningDispatch]:
        """The dispatches of this object whose outcomes are not yet known, in the order in which they started."""
        return [RunningDispatch(one.dispatch_id, one.calls) for one in self._streams.values() if not one.over]

    async def cancel_dispatch(self, dispatch_id: str, *, timeout: timedelta | None = None) -> int:
        """Cancel all calls of a running dispatch; return the number of cancelled calls. Safe to repeat.

        Raises:
            ValueError: this object has neither started nor resumed a dispatch with this id.
        """
        if dispatch_id not in self._streams:
            raise ValueError(f"no dispatch {dispatch_id!r} in turn {self.turn_id}: `running` lists those there are")
        calls = self._streams[dispatch_id].calls
        return sum(
            await asyncio.gather(*(self.cancel_call(dispatch_id, one.call_id, timeout=timeout) for one in calls))
        )

    @property
    def turn_id(self) -> str:
        """The turn's id."""
        return self.binding.turn_id

    @property
    def surface(self) -> Surface:
        """The tools and the prompt of this turn."""
        return self.binding.surface

    def dispatch(
        self,
        calls: Sequence[ToolCall],
        context: DispatchContext = NO_CONTEXT,
        *,
        dispatch_id: str = "",
        timeout: timedelta | None = None,
    ) -> DispatchStream:
        """Run the sub-agent calls of one model response.

        Args:
            calls: 1 to 64 calls, in the order in which the model emitted them.
            context: the input that all sub-agents of the dispatch share.
            dispatch_id: idempotency key; empty: a new one. An id repeated with the same calls attaches to its dispatch.
            timeout: maximum time until the outcomes are known; None: `ClientTimeouts.dispatch`.

        Raises:
            ValueError: `calls` is empty.

        Source: PC2-FR-7.
        """
        if not calls:
            raise ValueError("a dispatch needs at least one call; end the turn if the model made none")
        name = dispatch_id or self._wire.runtime.new_id()
        known = self._started.get(name)
        assignment = DispatchCall(
            dispatch_id=name,
            surface_token=self.binding.surface_token,
            surface=self.surface,
            calls=tuple(calls),
            first_index=known.first_index if known else self._emitted,
            request=self._request(name, calls, context),
        )
        if known is None:
            self._started[name] = assignment
            self._emitted += len(calls)
        return self._stream(assignment, timeout)

    async def dispatch_and_wait(
        self,
        calls: Sequence[ToolCall],
        context: DispatchContext = NO_CONTEXT,
        *,
        dispatch_id: str = "",
        timeout: timedelta | None = None,
    ) -> DispatchResult:
        """Run the calls and return one outcome for each call. Takes the arguments of `dispatch`, yields no events."""
        async with self.dispatch(calls, context, dispatch_id=dispatch_id, timeout=timeout) as stream:
            return await stream.result()

    def resume(
        self,
        dispatch_id: str,
        *,
        calls: Sequence[ToolCall] = (),
        after_sequence: int = 0,
        timeout: timedelta | None = None,
    ) -> DispatchStream:
        """Return a new stream of a running or settled dispatch, e.g. if the process that started it has ended.

        Args:
            dispatch_id: the id with which the dispatch was started.
            calls: the calls of the dispatch; optional if this object started it. Without them the SDK cannot make
                synthetic outcomes, and raises `DependencyUnavailable` if the sidecar is unreachable.
            after_sequence: number of the newest event already seen; 0: send all events that the sidecar still has.
            timeout: maximum time until the outcomes are known; None: `ClientTimeouts.dispatch`.
        """
        known = self._started.get(dispatch_id)
        assignment = DispatchCall(
            dispatch_id=dispatch_id,
            surface_token=self.binding.surface_token,
            surface=self.surface,
            calls=tuple(calls) or (known.calls if known else ()),
            first_index=known.first_index if known else 0,
            request=None,
            after_sequence=after_sequence,
        )
        return self._stream(assignment, timeout)

    def unanswered(self, calls: Sequence[ToolCall], cause: SubagentsError | None = None) -> DispatchResult:
        """Return a failed outcome for each call, to complete a message history after `dispatch` raised `cause`."""
        return synthesised_result("", calls, self.surface, cause)

    async def cancel_call(self, dispatch_id: str, call_id: str, *, timeout: timedelta | None = None) -> bool:
        """Cancel one call; other calls continue. Returns False if the call had already settled. Safe to repeat."""
        request = dispatch_pb2.CancelCallRequest(
            surface_token=self.binding.surface_token, dispatch_id=dispatch_id, call_id=call_id
        )
        answer = await self._wire.ask(self._wire.stub.CancelCall, request, "CancelCall", self._unary(timeout))
        return answer.cancelled

    async def close_child(self, integration: Integration, *, timeout: timedelta | None = None) -> ChildSummary:
        """Give the verdict on one child and close the child before the turn ends. Safe to repeat with this verdict."""
        request = dispatch_pb2.CloseChildRequest(
            surface_token=self.binding.surface_token,
            child_id=integration.child_id,
            verdict=_verdict(integration.verdict),
            reason=integration.reason,
        )
        answer = await self._wire.ask(self._wire.stub.CloseChild, request, "CloseChild", self._unary(timeout))
        return translate_ending.child_summary(answer.child)

    async def end(
        self,
        narration: str = "",
        integrations: Sequence[Integration] = (),
        *,
        declared_intent_count: int = 0,
        user_message: str = "",
        timeout: timedelta | None = None,
    ) -> TurnEnd:
        """End the turn. Also required for a turn without a dispatch. Safe to repeat with the same arguments.

        Args:
            narration: text of the answer that the user saw, without component JSON; at most 256 KiB.
            integrations: verdicts on children. A child without a verdict is accepted if it answered.
            declared_intent_count: number of intents that the model declared in a response without sub-agent calls.
            user_message: the user's message, for the history; empty: the `task_prompt` of the last dispatch.
            timeout: maximum time for the request; None: `ClientTimeouts.unary`.

        Source: PC2-FR-15.
        """
        self._ending = self._end_request(narration, integrations, declared_intent_count, user_message)
        return await self._end(self._ending, self._unary(timeout))

    async def _end(self, request: dispatch_pb2.EndTurnRequest, timeout: timedelta) -> TurnEnd:
        answer = await self._wire.ask(self._wire.stub.EndTurn, request, "EndTurn", timeout)
        self._ended = True
        return translate_ending.turn_end(answer)

    def _end_request(
        self, narration: str, integrations: Sequence[Integration], declared_intent_count: int, user_message: str
    ) -> dispatch_pb2.EndTurnRequest:
        return dispatch_pb2.EndTurnRequest(
            surface_token=self.binding.surface_token,
            integrations=[
                dispatch_pb2.Integration(child_id=one.child_id, verdict=_verdict(one.verdict), reason=one.reason)
                for one in integrations
            ],
            narration=narration,
            declared_intent_count=declared_intent_count,
            user_message=user_message,
        )

    def _stream(self, assignment: DispatchCall, timeout: timedelta | None) -> DispatchStream:
        stream = DispatchStream(self._wire, assignment, timeout or self._wire.timeouts.dispatch)
        self._streams[assignment.dispatch_id] = stream
        return stream

    def _unary(self, timeout: timedelta | None) -> timedelta:
        return timeout or self._wire.timeouts.unary

    def _request(
        self, dispatch_id: str, calls: Sequence[ToolCall], context: DispatchContext
    ) -> dispatch_pb2.DispatchRequest:
        request = dispatch_pb2.DispatchRequest(
            surface_token=self.binding.surface_token,
            binding_digest=self.surface.binding_digest,
            dispatch_id=dispatch_id,
            calls=[_call(one) for one in calls],
            declared_intent_count=context.declared_intent_count,
            prior_context=context.prior_context,
            task_prompt=context.task_prompt,
            on_disconnect=f"ON_DISCONNECT_{context.on_disconnect.name}",
        )
        if context.on_disconnect is OnDisconnect.CONTINUE_UNTIL:
            request.continue_for.FromTimedelta(context.continue_for)
        return request


def _call(call: ToolCall) -> dispatch_pb2.ToolCall:
    message = dispatch_pb2.ToolCall(call_id=call.call_id, tool_name=call.tool_name, arguments_json=call.arguments_json)
    if call.answering is not None:
        message.answering.CopyFrom(answering_message(call.answering))
    return message


def _verdict(verdict: Verdict) -> str:
    return f"VERDICT_{verdict.name}"
