"""The reference orchestrator: LangChain's `create_agent` with the sidecar under it."""

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
    """What one turn came to.

    Attributes:
        text: composed by the orchestrator's model, without its statement of what is missing. Empty if the run was
            interrupted, or the model wrote none.
        missing: the calls that did not fully succeed. Each is in `stated` or in one of the `notes`, never in both.
        stated: ids of the missing calls that the text acknowledges: as its model states, and as the judge confirms if
            there is one.
        notes: what the user has to be told beside the text, in the user's language; empty if the text says it all.
        full_text: text and notes as one text, for clients that show one; it is what goes on record as narration.
        messages: the whole history, valid for any provider unless the run was interrupted.
        interrupts: what has to be answered before the turn goes on, by `answer` with `Command(resume=...)`. The turn is
            open until then. Empty if the turn has come to its end.
        results: one for each dispatch of this run, in order; empty if no sub-agent was asked.
        extra_calls: calls of models beside the routing call, with their cost. A compaction comes after the answer: only
            `OrchestratorRules.on_extra_call` is told of it.
        end: how the turn ended; None if it is open, or if the sidecar could not be told.
        unbound_because: why no sub-agent could be asked; None if they could.
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
        """What sub-agents rendered, in emission order, for the client to show beside the text."""
        outcomes = [each for result in self.results for each in result.outcomes if each.answered]
        return [part for outcome in outcomes for part in outcome.components]


def _ignore(event: TurnEvent) -> None:
    """Do nothing."""


class Orchestrator:
    """Answers users with the sub-agents behind one sidecar. Serves any number of turns at a time.

    Args:
        client: the sidecar beside this process.
        model: routes and composes; must be able to call several tools in one response.
        summary_model: writes `prior_context` on an intent switch, and the summary of a long conversation; a cheaper
            one will do; None: the same model.
        tools: the orchestrator's own tools; the model sees those that the surface names.
        rules: timeouts, words, prices.
        agent: more arguments of `create_agent`. With a `checkpointer`, history is kept by `thread_id`; without one
            `answer` is given all of it each time. Further `middleware`, e.g. limits or approvals, runs inside of the
            sidecar's.

    Attributes:
        graph: the compiled graph, for other ways to stream; run it within `turn`.
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
        inside: Sequence[AgentMiddleware[Any, Any, Any]] = agent.pop("middleware", ())
        self.graph: CompiledStateGraph[Any, ActiveTurn, Any, Any] = create_agent(
            model, middleware=[sidecar, *inside, StatementFilter()], context_schema=ActiveTurn, **agent
        )

    @asynccontextmanager
    async def turn(self, request: TurnRequest) -> AsyncIterator[ActiveTurn]:
        """Give the context for one run of `graph`; the turn is ended when the block is left, unless it was interrupted.

        If the conversation has become too long, its summary is written afterwards, in the background.
        """
        async with active_turn(request, self._rules) as active:
            yield active
        self._compaction.after(active)

    async def settled(self) -> None:
        """Wait until no summary is being written; before the client is closed."""
        await self._compaction.settled()

    async def answer(
        self,
        request: TurnRequest,
        messages: Sequence[AnyMessage] | Command[Any] | None,
        *,
        listener: Callable[[TurnEvent], None] = _ignore,
        config: RunnableConfig | None = None,
    ) -> Answer:
        """Carry out one turn, or go on with one, until its end or the next interrupt.

        Args:
            request: whose turn, of which episode. A `turn_id` is made if it has none. To go on, principal and episode
                have to be those that the turn began with; everything else is as it was then.
            messages: the history up to the user's message; with a checkpointer only what is new. To go on with a turn:
                `Command(resume=...)` with the answers to `Answer.interrupts`, or None after the process was killed.
            listener: told of preamble and progress while it happens; slow listening slows the turn.
            config: LangChain's, e.g. `{"configurable": {"thread_id": ...}}` with a checkpointer.

        Raises:
            SubagentsError: the turn could not be bound for a reason that the caller has to mend.
            ValueError: nothing waits in this thread to go on; `ForeignTurn`: it is not this caller's.
            Exception: whatever the model's provider raises. With a checkpointer the turn can then be gone on with.
        """
        settings: RunnableConfig = {"recursion_limit": self._rules.most_steps, **(config or {})}
        given = messages if messages is None or isinstance(messages, Command) else {"messages": list(messages)}
        if not isinstance(given, dict) and (kept := await self._waiting(settings)):
            request_of(kept, request)
        # Each step is kept before the next begins, so that a dispatch that another run finds again is never sent twice.
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
        """End the turn that waits in a thread, because it will not continue. Its sub-agents are stopped.

        A new message in the thread does the same.

        Args:
            request: with principal and episode of the turn.
            config: with the `thread_id`.

        Raises:
            ValueError: no turn waits in this thread; `ForeignTurn`: it is not this caller's.
        """
        if kept := await self._waiting(config):
            request_of(kept, request)
            await self._binding.end(kept, request)

    async def _waiting(self, settings: RunnableConfig) -> OpenTurn | None:
        """Return the turn that a thread waits with; None if it stopped before the turn was begun."""
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
