"""The dispatches of one model response: sent, and found again by a run that goes on with the turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.types import StreamWriter

from subagents_client import (
    BoundTurn,
    CallOutcome,
    DispatchContext,
    DispatchResult,
    DispatchStream,
    OnDisconnect,
    StatusUpdate,
    SubagentsError,
    ToolCall,
)
from subagents_errors import DependencyUnavailable, UnknownDispatch
from subagents_langchain.calls import declared_intents, is_sub_agent_call, unreadable_calls
from subagents_langchain.history import calls_of
from subagents_langchain.open_turn import dispatch_id
from subagents_langchain.prior_context import newly_asked, write_prior_context
from subagents_langchain.rules import OrchestratorRules
from subagents_langchain.stored_history import since_summary, summary_note
from subagents_langchain.turn import ABANDON, ActiveTurn, Preamble, StatusLine

UNBOUND = "the turn was not bound, so no sub-agent can be asked"


@dataclass(frozen=True, slots=True)
class ResponseDispatches:
    """What a `Gathering` sends the calls of one response with.

    Attributes:
        hand: the turn.
        response: whose calls these are.
        messages: the history up to the response.
        write: into LangGraph's custom stream.
        rules, summary_model: of the middleware.
    """

    hand: ActiveTurn
    response: AIMessage
    messages: Sequence[AnyMessage]
    write: StreamWriter
    rules: OrchestratorRules
    summary_model: BaseChatModel | None

    async def recall(self) -> tuple[Mapping[str, CallOutcome], int]:
        """Return what an earlier run has sent of the response; one that was made in this run was not sent before.

        What the sidecar has no record of never ran, and may be sent.
        """
        found: dict[str, CallOutcome] = {}
        if not self.hand.resumed or self.hand.made.issuperset(calls_of(self.response)):
            return found, 0
        for number in count():
            result = await self._earlier(self._id(number))
            if result is None:
                return found, number
            self.hand.results.append(result)
            found |= {one.call_id: one for one in result.outcomes}
        raise AssertionError("numbers do not end")

    async def send(self, number: int, calls: Sequence[ToolCall]) -> Mapping[str, CallOutcome]:
        """Return one outcome for each call, by call id, whatever happens. Source: PC2-FR-7, PC2-FR-8a.

        Calls that cannot be read go along with the first dispatch, so that they are on record as refused.
        """
        turn, message = self._turn(), self.response
        moment = str(message.text) or self.rules.phrases_for(self.hand.request.locale).one_moment
        if moment and number == 0:
            self.write(Preamble(moment))
        sent = list(calls)
        if number == 0:
            sent += [one for one in unreadable_calls(message) if is_sub_agent_call(one.tool_name)]
        context = await self._context(turn, sent)
        try:
            stream = turn.dispatch(sent, context, dispatch_id=self._id(number), timeout=self.rules.dispatch_timeout)
            result = await self._listen(stream)
        except SubagentsError as error:
            result = turn.unanswered(sent, error)
        self.hand.keep(result)
        return {one.call_id: one for one in result.outcomes}

    async def cancel(self, number: int, call_id: str) -> None:
        """Cancel one call of a dispatch, if the sidecar can be told."""
        try:
            await self._turn().cancel_call(self._id(number), call_id, timeout=ABANDON)
        except SubagentsError:
            return  # it ends by its own deadline, or with the turn

    def _id(self, number: int) -> str:
        kept = self.hand.kept
        return dispatch_id(kept["turn_id"] if kept else "", self.response, number)

    def _turn(self) -> BoundTurn:
        if self.hand.turn is None:
            raise self.hand.unbound_because or DependencyUnavailable(UNBOUND)
        return self.hand.turn

    async def _earlier(self, name: str) -> DispatchResult | None:
        for result in self.hand.recorded:
            if result.dispatch_id == name:
                return result
        try:
            return await self._listen(self._turn().resume(name, timeout=self.rules.dispatch_timeout))
        except UnknownDispatch:
            return None

    async def _listen(self, stream: DispatchStream) -> DispatchResult:
        async with stream:
            async for event in stream:
                if isinstance(event, StatusUpdate):
                    words = self.rules.status.words(event, self.hand.request.locale)
                    if words is not None:
                        self.write(StatusLine(words, event.type, event.sub_agent_ids, event.count))
            return await stream.result()

    async def _context(self, turn: BoundTurn, calls: Sequence[ToolCall]) -> DispatchContext:
        hand = self.hand
        names = newly_asked(turn.surface, calls)
        if names and hand.prior_context is None and self.summary_model is not None:
            note = summary_note(hand.episode)
            earlier = since_summary(self.messages, hand.episode)
            prompt = hand.prompt([note] if note else [])
            hand.prior_context = await write_prior_context(
                self.summary_model, prompt, earlier, names, hand.costs, self.rules.summary_timeout
            )
        return DispatchContext(
            prior_context=(hand.prior_context or "") if names else "",
            task_prompt=hand.said,
            declared_intent_count=declared_intents(self.response),
            on_disconnect=self.rules.on_disconnect or _on_disconnect(can_go_on=hand.can_go_on),
            continue_for=self.rules.continue_for,
        )


def _on_disconnect(*, can_go_on: bool) -> OnDisconnect:
    """Without checkpoints no other run can ever ask for the outcomes."""
    return OnDisconnect.CONTINUE if can_go_on else OnDisconnect.CANCEL
