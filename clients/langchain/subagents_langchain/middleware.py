"""The sidecar under `create_agent`: bind before the agent runs, dispatch after each response, hand the results out.

All sub-agent calls of one response go out as one dispatch, since they are known when the response is there. When
LangGraph then calls each tool, its outcome is waiting. The graph must run asynchronously.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import override

from subagents_client import (
    BoundTurn,
    DispatchContext,
    DispatchResult,
    Episode,
    SidecarClient,
    StatusUpdate,
    SubagentsError,
    Surface,
    ToolCall,
)
from subagents_errors import DependencyAway, OutOfTime, Overloaded
from subagents_langchain.acknowledging import instruction, lacks_in, unsaid
from subagents_langchain.calls import (
    answer_to,
    answer_to_unreadable,
    declared_intents,
    is_sub_agent_call,
    sub_agent_calls,
    unreadable_calls,
)
from subagents_langchain.costs import Purpose
from subagents_langchain.history import calls_of, narration_of_earlier_turns, start_of_turn, with_open_calls_answered
from subagents_langchain.past import read_past, since_summary, summary_note
from subagents_langchain.prior_context import newly_asked, write_prior_context
from subagents_langchain.rules import OrchestratorRules
from subagents_langchain.tools import tools_of
from subagents_langchain.turn import LONGEST_SAID, AnswerAmended, Preamble, StatusLine, TurnInHand, trimmed

ONCE_MORE: Final = (
    "The user's message has {declared} intents, and you have asked {called}. Call the assistants for what is missing"
    " now, or answer if nothing is."
)
OWN_TOOL_FAILED: Final = "This could not be done right now."
LOG: Final = logging.getLogger(__name__)

State = AgentState[Any]
Handler = Callable[[ModelRequest[TurnInHand]], Awaitable[ModelResponse[Any]]]
ToolHandler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]


class SidecarMiddleware(AgentMiddleware[State, TurnInHand, Any]):
    """Puts a surface's prompt and tools before the model and answers every sub-agent call.

    The graph runs with a `TurnInHand` as its context, see `turn_in_hand`; one compiled graph serves any number of
    turns at a time.

    Args:
        client: the sidecar beside this process.
        summary_model: writes `prior_context`; None: nobody does.
        tools: the orchestrator's own; the model sees those that the surface names.
        rules: everything else.
    """

    def __init__(
        self,
        client: SidecarClient,
        summary_model: BaseChatModel | None = None,
        tools: Sequence[BaseTool] = (),
        rules: OrchestratorRules | None = None,
    ) -> None:
        super().__init__()
        self.tools = tools
        self._client = client
        self._summary_model = summary_model
        self._rules = rules or OrchestratorRules()

    @override
    async def abefore_agent(self, state: State, runtime: Runtime[TurnInHand]) -> dict[str, Any] | None:
        """Bind the turn. If the sidecar is away the turn goes on without sub-agents. Source: PC2-FR-1."""
        hand, messages = runtime.context, state["messages"]
        start = start_of_turn(messages)
        hand.said = trimmed(str(messages[start].text), LONGEST_SAID) if messages else ""
        reading = asyncio.ensure_future(self._past(hand, begun=start > 0))
        try:
            hand.turn = await self._client.bind_turn(hand.request)
            hand.tools = tools_of(hand.turn)
            hand.episode = await reading
        except (DependencyAway, Overloaded, OutOfTime) as error:
            hand.unbound_because = error
        finally:
            reading.cancel()
        mended = with_open_calls_answered(messages)
        if len(mended) == len(messages):
            return None
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *mended]}

    @override
    async def awrap_model_call(self, request: ModelRequest[TurnInHand], handler: Handler) -> ModelResponse[Any]:
        """Show the model the surface, narration of earlier turns, and the present turn. Source: PC1-D-10, PC1-FR-10."""
        hand = request.runtime.context
        present = request.messages[start_of_turn(request.messages) :]
        notes = [summary_note(hand.episode), self._once_more(hand), instruction(lacks_in(present))]
        asked_again, hand.missing_intents = hand.missing_intents is not None, None
        prompt = self._prompt(hand, [note for note in notes if note])
        response = await handler(
            request.override(
                system_message=SystemMessage(prompt) if prompt else None,
                messages=narration_of_earlier_turns(since_summary(request.messages, hand.episode)),
                tools=self._offered(request.tools, hand),
            )
        )
        if hand.results:
            self._count(hand, response, asked_again=asked_again)
        return response

    @override
    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: State, runtime: Runtime[TurnInHand]) -> dict[str, Any] | None:
        """Dispatch the sub-agent calls of the response, or see that the answer says what is missing."""
        hand, message = runtime.context, _last_response(state["messages"])
        if not calls_of(message):
            return self._answered(message, state, runtime)
        if calls := sub_agent_calls(message):
            if moment := str(message.text) or self._rules.phrases_for(hand.request.locale).one_moment:
                runtime.stream_writer(Preamble(moment))
            if hand.turn is not None:
                context = await self._context(hand, hand.turn.surface, message, state["messages"])
                self._keep(hand, await self._dispatch(hand.turn, calls, context, runtime))
        unreadable = [answer_to_unreadable(one, hand.outcome(one.call_id)) for one in unreadable_calls(message)]
        if not unreadable:
            return None
        return {"messages": unreadable} if message.tool_calls else {"messages": unreadable, "jump_to": "model"}

    @override
    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        """Hand out the outcome of a sub-agent call; run the orchestrator's own tools, whose failure stays theirs."""
        name, call_id = request.tool_call["name"], str(request.tool_call["id"])
        if is_sub_agent_call(name):
            hand = cast("TurnInHand", request.runtime.context)
            return answer_to(call_id, name, hand.outcome(call_id))
        try:
            return await handler(request)
        except GraphBubbleUp:
            raise
        except Exception:
            LOG.exception("the orchestrator's own tool %s failed", name)
            return ToolMessage(OWN_TOOL_FAILED, name=name, tool_call_id=call_id, status="error")

    async def _past(self, hand: TurnInHand, *, begun: bool) -> Episode | None:
        """Return what the memory knows of a conversation that has begun; it is read while the turn is bound."""
        chosen = self._rules.compaction
        return await read_past(self._client, hand.request, chosen.read_timeout) if chosen and begun else None

    def _prompt(self, hand: TurnInHand, notes: Sequence[str]) -> str:
        """Return the prefix, which providers cache, what this call is told besides, and the suffix, always last."""
        if hand.turn is None:
            return self._rules.unbound_prompt
        prompt = hand.turn.surface.prompt
        return "".join([prompt.prefix, *(f"\n{note}\n" for note in notes), prompt.suffix])

    def _once_more(self, hand: TurnInHand) -> str:
        if hand.missing_intents is None:
            return ""
        declared, called = hand.missing_intents
        return ONCE_MORE.format(declared=declared, called=called)

    def _offered(self, registered: Sequence[BaseTool | dict[str, Any]], hand: TurnInHand) -> list[Any]:
        """Return what the model may call: registered tools but own ones that the surface does not name, sub-agents."""
        on_surface = [one.name for one in hand.turn.surface.orchestrator_tools] if hand.turn else []
        hidden = {tool.name for tool in self.tools if tool.name not in on_surface}
        own = [tool for tool in registered if isinstance(tool, dict) or tool.name not in hidden]
        return [*own, *(hand.tools if hand.may_dispatch() else ())]

    def _count(self, hand: TurnInHand, response: ModelResponse[Any], *, asked_again: bool) -> None:
        for message in response.result:
            if isinstance(message, AIMessage):
                purpose = Purpose.FURTHER_CALLS if sub_agent_calls(message) else Purpose.COMPOSITION
                hand.costs.add(Purpose.MISSING_INTENT if asked_again else purpose, message)

    def _keep(self, hand: TurnInHand, result: DispatchResult) -> None:
        hand.results.append(result)
        if result.intents.failsafe and not hand.asked_again and hand.may_dispatch():
            hand.asked_again = True
            hand.missing_intents = (result.intents.declared, result.intents.emitted)

    async def _context(
        self, hand: TurnInHand, surface: Surface, message: AIMessage, messages: Sequence[AnyMessage]
    ) -> DispatchContext:
        names = newly_asked(surface, sub_agent_calls(message))
        if names and hand.prior_context is None and self._summary_model is not None:
            note = summary_note(hand.episode)
            prompt = self._prompt(hand, [note] if note else [])
            earlier = since_summary(messages[:-1], hand.episode)
            hand.prior_context = await write_prior_context(
                self._summary_model, prompt, earlier, names, hand.costs, self._rules.summary_timeout
            )
        return DispatchContext(
            prior_context=(hand.prior_context or "") if names else "",
            task_prompt=hand.said,
            declared_intent_count=declared_intents(message),
        )

    async def _dispatch(
        self, turn: BoundTurn, calls: Sequence[ToolCall], context: DispatchContext, runtime: Runtime[TurnInHand]
    ) -> DispatchResult:
        """Return one outcome for each call, whatever happens."""
        try:
            async with turn.dispatch(calls, context, timeout=self._rules.dispatch_timeout) as stream:
                async for event in stream:
                    if isinstance(event, StatusUpdate):
                        words = self._rules.status.words(event, runtime.context.request.locale)
                        if words is not None:
                            runtime.stream_writer(StatusLine(words, event.type, event.sub_agent_ids, event.count))
                return await stream.result()
        except SubagentsError as error:
            return turn.unanswered(calls, error)

    def _answered(self, message: AIMessage, state: State, runtime: Runtime[TurnInHand]) -> dict[str, Any] | None:
        hand, messages = runtime.context, state["messages"]
        hand.answer = str(message.text)
        nothing = not any(one.answered for one in hand.outcomes)
        lacks = lacks_in(messages[start_of_turn(messages) :])
        phrases = self._rules.phrases_for(hand.request.locale)
        owed = unsaid(hand.answer, lacks, phrases, nothing=nothing)
        if not owed:
            return None
        amended = _with_text(message, owed)
        hand.answer = str(amended.text)
        runtime.stream_writer(AnswerAmended(owed))
        return {"messages": [amended]}


def _last_response(messages: Sequence[BaseMessage]) -> AIMessage:
    return next(one for one in reversed(messages) if isinstance(one, AIMessage))


def _with_text(message: AIMessage, text: str) -> AIMessage:
    """Return the message with text appended, all else, its id and metadata too, as it was."""
    if isinstance(message.content, str):
        content: Any = f"{message.content} {text}".strip()
    else:
        content = [*message.content, {"type": "text", "text": f" {text}"}]
    return message.model_copy(update={"content": content})
