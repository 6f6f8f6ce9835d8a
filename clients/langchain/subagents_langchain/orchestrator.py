"""`Orchestrator`, the reference orchestrator: LangChain's `create_agent` with `SidecarMiddleware`."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Durability, Interrupt

from subagents_client import Component, DispatchResult, SidecarClient, SubagentsError, TurnEnd, TurnRequest
from subagents_langchain.acknowledging.filtering import StatementFilter
from subagents_langchain.acknowledging.notes import MissingNote
from subagents_langchain.binding import Binding
from subagents_langchain.compaction import Compaction
from subagents_langchain.costs import ExtraCall
from subagents_langchain.middleware import SidecarMiddleware
from subagents_langchain.open_turn import OpenTurn, request_of
from subagents_langchain.outcomes.missing import MissingKind
from subagents_langchain.rules import OrchestratorRules
from subagents_langchain.turn import ActiveTurn, TurnEvent, active_turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of one turn, or of a run that was interrupted.

    Attributes:
        text: text by the orchestrator's model, without its statement of missing calls. Empty if the run was
            interrupted, or if the model wrote no text.
        missing: the calls that did not fully succeed. Each is either in `stated` or in one of the `notes`.
        stated: ids of the missing calls that the text mentions, according to the model that wrote it and, if there is
            one, the judge.
        notes: sentences about the other missing calls, in the user's language, to be shown beside the text.
        full_text: text and notes as one text, for clients that show only one; recorded as the narration of the turn.
        messages: the whole message history; valid for any provider unless the run was interrupted.
        interrupts: questions that a person must answer before the turn can continue with `answer` and
            `Command(resume=...)`. The turn is open until then. Empty if the turn has ended.
        results: one result for each dispatch of this run, in order; empty if no sub-agent was called.
        extra_calls: the model calls in addition to the routing call, with their cost. A compaction follows the answer,
            so only `OrchestratorRules.on_extra_call` reports its call.
        end: how the turn ended; None if it is open, or if the sidecar could not be reached at the end.
        unbound_because: why the turn could not be bound, so that no sub-agent was available; None if it was bound.
    """

    text: str
    missing: Sequence[MissingKind]
    stated: Sequence[str]
    notes: Sequence[MissingNote]
    full_text: str
    messages: Sequence[AnyMessage]
    interrupts: Sequence[Interrupt]
    results: Sequence[DispatchResult]
    extra_calls: Sequence[ExtraCall]
    end: TurnEnd | None
    unbound_because: SubagentsError | None

    @property
    def components(self) -> Sequence[Component]:
        """The components of answered calls, in emission order; the client shows them beside the text."""
        outcomes = [outcome for result in self.results for outcome in result.outcomes if outcome.answered]
        return [component for outcome in outcomes for component in outcome.components]


def _ignore(event: TurnEvent) -> None:
    """Do nothing."""


class Orchestrator:
    """Answers users with the help of sub-agents. One object serves any number of concurrent turns.

    Args:
        client: a client of the sidecar beside this process.
        model: the model that calls sub-agents and composes answers; must support several tool calls in one response.
        summary_model: the model that writes `prior_context` when the intent switches, and summaries of long
            conversations; a cheaper model is sufficient; None: `model`.
        tools: the orchestrator's own tools; the model is offered those that the surface contains.
        rules: timeouts, phrases, prices and other options; None: the defaults.
        agent: further arguments of `create_agent`. With a `checkpointer`, the graph stores the history by `thread_id`;
            without one, pass the whole history to each `answer`. Further `middleware`, e.g. for limits or approvals,
            runs inside of `SidecarMiddleware`.

    Attributes:
        graph: the compiled graph, for other ways to stream. Run it inside `turn`.
    """

    def __init__(
        self,
        client: SidecarClient,
        model: BaseChatModel,
        *,
        summary_model: BaseChatModel | None = None,
        tools: Sequence[BaseTool] = (),
        rules: OrchestratorRules | None = None,
        **agent: Any,
    ) -> None:
        self._rules = rules or OrchestratorRules()
        self._compaction = Compaction(client, summary_model or model, self._rules.compaction)
        self._binding = Binding(client, self._rules)
        sidecar = SidecarMiddleware(client, summary_model or model, tools, self._rules)
        inner: Sequence[AgentMiddleware[Any, Any, Any]] = agent.pop("middleware", ())
        self.graph: CompiledStateGraph[Any, ActiveTurn, Any, Any] = create_agent(
            model, middleware=[sidecar, *inner, StatementFilter()], context_schema=ActiveTurn, **agent
        )

    @asynccontextmanager
    async def turn(self, request: TurnRequest) -> AsyncIterator[ActiveTurn]:
        """Yield the context for one run of `graph`; end the turn after the block, unless the run was interrupted.

        If compaction is due, the summary of the conversation is then written in the background.
        """
        async with active_turn(request, self._rules) as active:
            yield active
        self._compaction.after(active)

    async def settled(self) -> None:
        """Wait until no summary is being written. Call this method before you close the client."""
        await self._compaction.settled()

    async def answer(
        self,
        request: TurnRequest,
        messages: Sequence[AnyMessage] | Command[Any] | None,
        *,
        listener: Callable[[TurnEvent], None] = _ignore,
        config: RunnableConfig | None = None,
    ) -> Answer:
        """Run or continue a turn until its end or the next interrupt, and return the answer.

        Args:
            request: principal, episode and other data of the turn. A `turn_id` is made if it has none. To continue a
                turn, pass the principal and the episode with which it began; all other data are those of its beginning.
            messages: the history up to the user's message; with a checkpointer, only the new messages. To continue a
                turn: `Command(resume=...)` with the answers to `Answer.interrupts`, or None after a crash.
            listener: called with the preamble, progress and notes while the turn runs; a slow listener slows the turn.
            config: configuration of LangChain, e.g. `{"configurable": {"thread_id": ...}}` with a checkpointer.

        Raises:
            SubagentsError: the turn could not be bound for a reason that the caller must correct.
            ValueError: no turn waits in this thread; its subclass `ForeignTurn`: the waiting turn has another
                principal or episode.
            Exception: an exception of the model's provider. With a checkpointer, the turn can then be continued.
        """
        settings: RunnableConfig = {"recursion_limit": self._rules.most_steps, **(config or {})}
        given = messages if messages is None or isinstance(messages, Command) else {"messages": list(messages)}
        if not isinstance(given, dict) and (kept := await self._waiting(settings)):
            request_of(kept, request)
        # "sync" stores each step before the next one begins. Otherwise a later run could miss a dispatch and repeat it.
        durability: Durability | None = "sync" if self.graph.checkpointer else None
        state: dict[str, Any] = {}
        async with self.turn(request) as active:
            run = self.graph.astream(
                given, settings, context=active, stream_mode=["custom", "values"], durability=durability
            )
            async with aclosing(cast("AsyncGenerator[tuple[str, Any], None]", run)) as items:
                async for mode, item in items:
                    if mode == "custom":
                        listener(item)
                    else:
                        state = item
            stopped = None if active.finished or not active.can_go_on else await self.graph.aget_state(settings)
        return _answer_of(active, state["messages"], stopped.interrupts if stopped else ())

    async def stop(self, request: TurnRequest, config: RunnableConfig) -> None:
        """End the turn that waits in a thread, and stop its sub-agents. A new message in the thread also does so.

        Args:
            request: has the principal and the episode of the turn.
            config: configuration of LangChain with the `thread_id`.

        Raises:
            ValueError: no turn waits in this thread; its subclass `ForeignTurn`: the waiting turn has another
                principal or episode.
        """
        if kept := await self._waiting(config):
            request_of(kept, request)
            await self._binding.end(kept, request)

    async def _waiting(self, settings: RunnableConfig) -> OpenTurn | None:
        """Return the turn that waits in a thread; None if the thread stopped before the turn began."""
        stopped = await self.graph.aget_state(settings)
        if not stopped.next:
            raise ValueError("no turn waits in this thread; begin one with the user's message")
        kept: OpenTurn | None = stopped.values.get("sidecar_turn")
        return None if kept is None or kept["finished"] else kept


def _answer_of(active: ActiveTurn, messages: Sequence[AnyMessage], interrupts: Sequence[Interrupt]) -> Answer:
    return Answer(
        text=active.answer,
        missing=tuple(active.missing),
        stated=tuple(active.stated),
        notes=tuple(active.notes),
        full_text=active.full_text,
        messages=messages,
        interrupts=interrupts,
        results=tuple(active.results),
        extra_calls=tuple(active.costs.calls),
        end=active.end,
        unbound_because=active.unbound_because,
    )
