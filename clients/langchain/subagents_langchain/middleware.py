"""`SidecarMiddleware` for `create_agent`: binds a turn before the agent runs, dispatches the calls of each response.

Like any tool, a sub-agent call runs inside of every middleware, whatever their order. Other middleware can therefore
answer, edit or skip it. The graph must run asynchronously.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime
from langgraph.types import Command, StreamWriter
from typing_extensions import override

from subagents_client import CallOutcome, SidecarClient
from subagents_client.coalescing import CallBatch
from subagents_langchain.acknowledging.filtering import filtered
from subagents_langchain.acknowledging.notes import notes_for
from subagents_langchain.acknowledging.statements import (
    StatementRequest,
    rendered_text,
    stated_by,
    was_asked,
    with_notes,
    without_statement,
)
from subagents_langchain.asking import with_answers
from subagents_langchain.binding import Binding
from subagents_langchain.calls import (
    answer_to_unreadable,
    asks_sub_agents,
    is_sub_agent_call,
    readable_calls,
    unreadable_calls,
)
from subagents_langchain.costs import Purpose
from subagents_langchain.dispatching import ResponseDispatches
from subagents_langchain.history import (
    answer_in,
    before_last_response,
    calls_of,
    last_response,
    narration_of_earlier_turns,
    start_of_turn,
    with_open_calls_answered,
)
from subagents_langchain.open_turn import SidecarState, dispatch_id
from subagents_langchain.outcomes.artifacts import outcome_in
from subagents_langchain.outcomes.missing import missing_calls_in
from subagents_langchain.prompts import Prompt, PromptMeter
from subagents_langchain.rules import OrchestratorRules
from subagents_langchain.statement_judge import confirmed
from subagents_langchain.stored_history import since_summary, summary_note
from subagents_langchain.tools import AskSubAgent
from subagents_langchain.turn import ActiveTurn

try:
    from langgraph.errors import is_invalid_resume
except ImportError:

    def is_invalid_resume(error: BaseException) -> bool:
        """Return False: a LangGraph without this function never rejects an answer to an interrupt."""
        return False


ONCE_MORE: Final = (
    "The user's message has {declared} intents, and you have asked {called}. Call the assistants for what is missing"
    " now, or answer if nothing is."
)
TOOL_FAILED: Final = "This could not be done right now."
LOG: Final = logging.getLogger(__name__)

Handler = Callable[[ModelRequest[ActiveTurn]], Awaitable[ModelResponse[Any]]]
ToolHandler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]


class SidecarMiddleware(AgentMiddleware[SidecarState, ActiveTurn, Any]):
    """Gives the model the prompt and the tools of the surface, and answers every sub-agent call.

    Run the graph with an `ActiveTurn` as its context (`active_turn`). One compiled graph serves any number of
    concurrent turns.

    Args:
        client: a client of the sidecar beside this process.
        summary_model: the model that writes `prior_context`; None: dispatches have no summary.
        tools: the orchestrator's own tools; the model is offered those that the surface contains.
        rules: all other options; None: the defaults.
    """

    state_schema = SidecarState

    def __init__(
        self,
        client: SidecarClient,
        summary_model: BaseChatModel | None = None,
        tools: Sequence[BaseTool] = (),
        rules: OrchestratorRules | None = None,
    ) -> None:
        super().__init__()
        self.tools = tools
        self._summary_model = summary_model
        self._rules = rules or OrchestratorRules()
        self._binding = Binding(client, self._rules)
        self._meter = PromptMeter(self._rules.on_model_call) if self._rules.on_model_call else None

    @override
    async def abefore_agent(self, state: SidecarState, runtime: Runtime[ActiveTurn]) -> dict[str, Any] | None:
        """Bind the turn. If the sidecar is unavailable, the turn continues without sub-agents. Source: PC2-FR-1."""
        update: dict[str, Any] = {"sidecar_turn": await self._binding.begin(state, runtime)}
        mended = with_open_calls_answered(state["messages"])
        if len(mended) > len(state["messages"]):
            update["messages"] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *mended]
        return update

    @override
    async def awrap_model_call(self, request: ModelRequest[ActiveTurn], handler: Handler) -> ModelResponse[Any]:
        """Call the model with the surface, earlier narrations and the current turn. Source: PC1-D-10, PC1-FR-10.

        The statement of missing calls is removed from the response, also in every stream.
        """
        active = request.runtime.context
        await self._binding.go_on(cast("SidecarState", request.state), request.runtime)
        present = request.messages[start_of_turn(request.messages) :]
        asked = StatementRequest(missing_calls_in(present))
        # If its provider stores earlier responses, a model sees its earlier statements, and may write one unasked.
        active.asked = asked if asked.lacks or was_asked(request.messages) else None
        notes = [summary_note(active.episode), self._once_more(active), asked.instruction]
        asked_again, active.missing_intents = active.missing_intents is not None, None
        prompt = active.prompt([note for note in notes if note]) if active.turn else self._rules.unbound_prompt
        shown = Prompt(
            tools=self._offered(request.tools, active),
            system=prompt,
            prefix=active.turn.surface.prompt.prefix if active.turn else prompt,
            messages=narration_of_earlier_turns(since_summary(request.messages, active.episode)),
        )
        response = await handler(
            request.override(
                model=filtered(request.model, asked) if active.asked else request.model,
                system_message=SystemMessage(prompt) if prompt else None,
                messages=list(shown.messages),
                tools=list(shown.tools),
            )
        )
        self._measure(shown, response)
        if active.asked:
            response = replace(response, result=[_without(one, asked) for one in response.result])
        active.made.update(call_id for message in response.result for call_id in calls_of(message))
        if active.dispatched or active.results:
            self._count(active, response, asked_again=asked_again)
        return response

    @override
    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: SidecarState, runtime: Runtime[ActiveTurn]) -> dict[str, Any] | None:
        """Store the id of the next dispatch in the state, and answer calls whose arguments LangChain could not parse.

        If all sub-agent calls of a response are unreadable, send them here, so that the sidecar records the refusal.
        """
        active, messages = runtime.context, state["messages"]
        await self._binding.go_on(state, runtime)
        message = last_response(messages)
        if message is None or not calls_of(message):
            return None
        update: dict[str, Any] = {}
        if active.kept is not None and asks_sub_agents(message):
            ids = [*active.kept["dispatch_ids"], dispatch_id(active.kept["turn_id"], message, 0)]
            active.kept = {**active.kept, "dispatch_ids": ids}
            update["sidecar_turn"] = active.kept
        if unreadable := unreadable_calls(message):
            outcomes: Mapping[str, CallOutcome] = {}
            if asks_sub_agents(message) and not readable_calls(message) and active.turn is not None:
                outcomes = await self._dispatches(active, message, messages, runtime.stream_writer).send(0, [])
            update["messages"] = [answer_to_unreadable(one, outcomes) for one in unreadable]
            if not message.tool_calls:
                update["jump_to"] = "model"
        return update or None

    @override
    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        """Run a sub-agent call together with the other calls of its response, or one of the orchestrator's own tools.

        An exception of an own tool, or of a middleware inside of this one, becomes a neutral answer to the call.
        """
        active, state = cast("ActiveTurn", request.runtime.context), cast("SidecarState", request.state)
        name, call_id = request.tool_call["name"], str(request.tool_call["id"])
        gathering = self._gathering(active, state["messages"], request.runtime.stream_writer)
        if is_sub_agent_call(name):
            if answered := answer_in(state["messages"], call_id):
                return answered  # another middleware has answered the call, but did not skip the tools
            await self._binding.go_on(state, cast("Runtime[ActiveTurn]", request.runtime))
            tool = active.turn.surface.tool(name) if active.turn else None
            request = request.override(tool=AskSubAgent.asking(gathering.ask, tool, name))
        else:
            gathering.passed(call_id)
        try:
            result = await handler(request)
            if self._rules.interrupt_on_questions and is_sub_agent_call(name):
                response, said = last_response(state["messages"]) or AIMessage(""), state["messages"]
                sender = self._dispatches(active, response, said, request.runtime.stream_writer)
                result = await with_answers(result, request.tool_call, sender)
        except GraphBubbleUp:
            gathering.passed(call_id)  # this call waits for a person; the other calls must not wait, too
            raise
        except Exception as error:
            gathering.passed(call_id)
            if is_invalid_resume(error):
                raise
            LOG.exception("the tool %s failed", name)
            return ToolMessage(TOOL_FAILED, name=name, tool_call_id=call_id, status="error")
        gathering.passed(call_id)
        return result

    @override
    async def aafter_agent(self, state: SidecarState, runtime: Runtime[ActiveTurn]) -> dict[str, Any] | None:
        """Tell the user about missing calls: the answer mentions those that it states, and notes mention the others.

        Source: PC1-FR-5b, PC2-FR-8b, PC2-FR-14a.
        """
        active, messages = runtime.context, state["messages"]
        await self._binding.go_on(state, runtime)
        active.finished = True
        update: dict[str, Any] = {"sidecar_turn": {**active.kept, "finished": True}} if active.kept else {}
        answer = messages[-1] if messages else AIMessage("")
        active.answer = active.full_text = str(answer.text)
        present = messages[start_of_turn(messages) :]
        active.missing = missing_calls_in(present)
        active.stated = await self._stated(active, answer)
        nothing = not any(one.answered for one in map(outcome_in, present) if one)
        words = self._rules.phrases_for(active.request.locale)
        active.notes = notes_for(active.missing, active.stated, words, nothing=nothing)
        for note in active.notes:
            runtime.stream_writer(note)
        if active.notes and isinstance(answer, AIMessage):
            noted = with_notes(answer, active.notes)
            active.full_text = rendered_text(noted)
            update["messages"] = [noted]
        return update or None

    async def _stated(self, active: ActiveTurn, answer: AnyMessage) -> Sequence[str]:
        """Return the ids of the missing calls that the answer acknowledges."""
        stated, judge = stated_by(answer, active.missing), self._rules.judge
        if not stated or judge is None:
            return stated
        claimed = [one for one in active.missing if one.call_id in stated]
        return await confirmed(judge, active.answer, claimed, active.costs, self._rules.judge_timeout)

    def _gathering(self, active: ActiveTurn, messages: Sequence[AnyMessage], write: StreamWriter) -> CallBatch:
        """Return the batch in which the calls of the last response wait for each other; create it if necessary."""
        response = last_response(messages) or AIMessage("")
        known = active.gatherings.get(str(response.id))
        if known is None:
            open_calls = [call["id"] for call in readable_calls(response) if not answer_in(messages, str(call["id"]))]
            sending = self._dispatches(active, response, messages, write)
            known = CallBatch(map(str, open_calls), self._rules.gather_timeout, sending, active.spawn)
            active.gatherings[str(response.id)] = known
        return known

    def _dispatches(
        self, active: ActiveTurn, response: AIMessage, messages: Sequence[AnyMessage], write: StreamWriter
    ) -> ResponseDispatches:
        return ResponseDispatches(
            active, response, before_last_response(messages), write, self._rules, self._summary_model
        )

    def _once_more(self, active: ActiveTurn) -> str:
        if active.missing_intents is None:
            return ""
        declared, called = active.missing_intents
        return ONCE_MORE.format(declared=declared, called=called)

    def _offered(self, registered: Sequence[BaseTool | dict[str, Any]], active: ActiveTurn) -> list[Any]:
        """Return registered tools, except own tools that the surface lacks, and sub-agents if it may dispatch."""
        on_surface = [one.name for one in active.turn.surface.orchestrator_tools] if active.turn else []
        hidden = {tool.name for tool in self.tools if tool.name not in on_surface}
        own = [tool for tool in registered if isinstance(tool, dict) or tool.name not in hidden]
        return [*own, *(active.tools if active.may_dispatch() else ())]

    def _measure(self, shown: Prompt, response: ModelResponse[Any]) -> None:
        for message in response.result if self._meter else ():
            if self._meter and isinstance(message, AIMessage):
                self._meter.measure(shown, message)

    def _count(self, active: ActiveTurn, response: ModelResponse[Any], *, asked_again: bool) -> None:
        for message in response.result:
            if isinstance(message, AIMessage):
                purpose = Purpose.FURTHER_CALLS if asks_sub_agents(message) else Purpose.COMPOSITION
                active.costs.add(Purpose.MISSING_INTENT if asked_again else purpose, message)


def _without(message: BaseMessage, asked: StatementRequest) -> BaseMessage:
    return without_statement(message, asked) if isinstance(message, AIMessage) else message
