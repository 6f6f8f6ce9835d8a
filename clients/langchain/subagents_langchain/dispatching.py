"""The dispatches of one model response: sends them, and finds them again when a later run continues the turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from uuid import uuid5

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.types import StreamWriter

from subagents_client import (
    BoundTurn,
    CallOutcome,
    CallStateChanged,
    DispatchContext,
    DispatchResult,
    DispatchStream,
    OnDisconnect,
    StatusUpdate,
    SubagentsError,
    ToolCall,
)
from subagents_client.coalescing import Settled
from subagents_errors import DependencyUnavailable, UnknownDispatch
from subagents_langchain.calls import declared_intents, is_sub_agent_call, unreadable_calls
from subagents_langchain.history import calls_of
from subagents_langchain.open_turn import NAMES, dispatch_id
from subagents_langchain.prior_context import newly_asked, write_prior_context
from subagents_langchain.rules import OrchestratorRules
from subagents_langchain.stored_history import since_summary, summary_note
from subagents_langchain.turn import ABANDON, ActiveTurn, Preamble, StatusLine

UNBOUND = "the turn was not bound, so no sub-agent can be asked"


def NOT_TOLD(_: CallOutcome) -> None:  # noqa: N802  a constant
    """Wait for the result."""


@dataclass(frozen=True, slots=True)
class ResponseDispatches:
    """Sends the calls of one response; the `Sender` of its `CallBatch`.

    Attributes:
        active: the turn.
        response: the response that made the calls.
        messages: the messages before the response.
        write: writes an item to LangGraph's custom stream.
        rules: the options of the middleware.
        summary_model: the model that writes `prior_context`; None: no summary.
    """

    active: ActiveTurn
    response: AIMessage
    messages: Sequence[AnyMessage]
    write: StreamWriter
    rules: OrchestratorRules
    summary_model: BaseChatModel | None

    async def recall(self) -> tuple[Mapping[str, CallOutcome], int]:
        """Return the outcomes and the number of the response's dispatches that earlier runs have sent.

        A response of this run has none. Calls of which the sidecar has no record never ran, and may be sent.
        """
        found: dict[str, CallOutcome] = {}
        if not self.active.resumed or self.active.made.issuperset(calls_of(self.response)):
            return found, 0
        for number in count():
            result = await self._earlier(self._id(number))
            if result is None:
                return found, number
            self.active.results.append(result)
            found |= {one.call_id: one for one in result.outcomes}
        raise AssertionError("numbers do not end")

    async def send(
        self, number: int, calls: Sequence[ToolCall], settled: Settled = NOT_TOLD
    ) -> Mapping[str, CallOutcome]:
        """Send the calls and return one outcome for each call, by call id. Source: PC2-FR-7, PC2-FR-8a.

        Unreadable calls are sent with the first dispatch, so that the sidecar records them as refused.
        """
        turn, message = self._turn(), self.response
        moment = str(message.text) or self.rules.phrases_for(self.active.request.locale).one_moment
        if moment and number == 0:
            self.write(Preamble(moment))
        sent = list(calls)
        if number == 0:
            sent += [one for one in unreadable_calls(message) if is_sub_agent_call(one.tool_name)]
        context = await self._context(turn, sent)
        try:
            stream = turn.dispatch(sent, context, dispatch_id=self._id(number), timeout=self.rules.dispatch_timeout)
            result = await self._listen(stream, settled)
        except SubagentsError as error:
            result = turn.unanswered(sent, error)
        self.active.keep(result)
        return {one.call_id: one for one in result.outcomes}

    async def answer(self, call: ToolCall, number: int) -> CallOutcome:
        """Send a call that answers a question, in its own dispatch, and return its outcome. Repeating it sends nothing.

        Args:
            call: the call, with the answer.
            number: number of earlier questions of this tool call.
        """
        name = uuid5(NAMES, f"{call.answering.receipt if call.answering else ''}\n{number}").hex
        for earlier in self.active.recorded:  # dispatches of a turn that ended before this run read their outcomes
            if earlier.dispatch_id == name:
                return earlier.outcomes[0]
        context = DispatchContext(task_prompt=self.active.user_message, on_disconnect=OnDisconnect.CONTINUE)
        try:
            stream = self._turn().dispatch([call], context, dispatch_id=name, timeout=self.rules.dispatch_timeout)
            result = await self._listen(stream)
        except SubagentsError as error:
            result = self._turn().unanswered([call], error)
        self.active.keep(result)
        return result.outcomes[0]

    async def cancel(self, number: int, call_id: str) -> None:
        """Cancel one call of a dispatch; do nothing if the sidecar cannot be reached."""
        try:
            await self._turn().cancel_call(self._id(number), call_id, timeout=ABANDON)
        except SubagentsError:
            return  # it ends by its own deadline, or with the turn

    def _id(self, number: int) -> str:
        kept = self.active.kept
        return dispatch_id(kept["turn_id"] if kept else "", self.response, number)

    def _turn(self) -> BoundTurn:
        if self.active.turn is None:
            raise self.active.unbound_because or DependencyUnavailable(UNBOUND)
        return self.active.turn

    async def _earlier(self, name: str) -> DispatchResult | None:
        for result in self.active.recorded:
            if result.dispatch_id == name:
                return result
        try:
            return await self._listen(self._turn().resume(name, timeout=self.rules.dispatch_timeout))
        except UnknownDispatch:
            return None

    async def _listen(self, stream: DispatchStream, settled: Settled = NOT_TOLD) -> DispatchResult:
        async with stream:
            async for event in stream:
                if isinstance(event, StatusUpdate):
                    words = self.rules.status.render(event, self.active.request.locale)
                    if words is not None:
                        self.write(StatusLine(words, event.type, event.sub_agent_ids, event.count))
                elif isinstance(event, CallStateChanged) and event.outcome is not None:
                    settled(event.outcome)
            return await stream.result()

    async def _context(self, turn: BoundTurn, calls: Sequence[ToolCall]) -> DispatchContext:
        active = self.active
        names = newly_asked(turn.surface, calls)
        if names and active.prior_context is None and self.summary_model is not None:
            note = summary_note(active.episode)
            earlier = since_summary(self.messages, active.episode)
            prompt = active.prompt([note] if note else [])
            active.prior_context = await write_prior_context(
                self.summary_model, prompt, earlier, names, active.costs, self.rules.summary_timeout
            )
        return DispatchContext(
            prior_context=(active.prior_context or "") if names else "",
            task_prompt=active.user_message,
            declared_intent_count=declared_intents(self.response),
            on_disconnect=self.rules.on_disconnect or _on_disconnect(can_go_on=active.can_go_on),
            continue_for=self.rules.continue_for,
        )


def _on_disconnect(*, can_go_on: bool) -> OnDisconnect:
    """Return the default. Without a checkpointer, calls are cancelled: no later run could get their outcomes."""
    return OnDisconnect.CONTINUE if can_go_on else OnDisconnect.CANCEL
