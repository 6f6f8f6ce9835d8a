"""Binds the turn of a run: a new turn when the agent begins, the turn in the graph's state when a run continues it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AnyMessage
from langgraph.runtime import Runtime

from subagents_client import Episode, SidecarClient, SubagentsError, TurnRequest
from subagents_errors import DeadlineExceeded, DependencyUnavailable, Overloaded
from subagents_langchain.history import start_of_turn
from subagents_langchain.open_turn import ForeignTurn, OpenTurn, SidecarState, begun, is_open, request_of
from subagents_langchain.outcomes.artifacts import dispatches_in
from subagents_langchain.rules import OrchestratorRules
from subagents_langchain.stored_history import read_stored_history
from subagents_langchain.tools import tools_of
from subagents_langchain.turn import ABANDON, LONGEST_SAID, ActiveTurn, trimmed

LOG: Final = logging.getLogger(__name__)


class Binding:
    """Binds turns at one sidecar. If it is unavailable, the turn continues without sub-agents. Source: PC2-FR-1."""

    def __init__(self, client: SidecarClient, rules: OrchestratorRules) -> None:
        self._client = client
        self._rules = rules

    async def begin(self, state: SidecarState, runtime: Runtime[ActiveTurn]) -> OpenTurn:
        """Bind a new turn, and return the turn for the graph's state. End an unfinished earlier turn of the thread."""
        active, left = runtime.context, state.get("sidecar_turn")
        kept = begun(active.request)
        if left is not None and not left["finished"] and left["turn_id"] != kept["turn_id"]:
            active.spawn(self.end(left, active.request))
        await self._bind(active, kept, state["messages"], runtime)
        return kept

    async def go_on(self, state: SidecarState, runtime: Runtime[ActiveTurn]) -> None:
        """Bind the turn in the graph's state again, once per run, unless this run began the turn.

        Raises:
            ForeignTurn: the turn has another principal or episode.
            SubagentsError: the turn cannot be bound for a reason that the caller must correct.
        """
        active, kept = runtime.context, state.get("sidecar_turn")
        async with active.binding:
            if active.kept is None and kept is not None and not kept["finished"]:
                active.resumed = True
                active.dispatched = dispatches_in(state["messages"][start_of_turn(state["messages"]) :])
                await self._bind(active, kept, state["messages"], runtime)

    async def _bind(
        self, active: ActiveTurn, kept: OpenTurn, messages: Sequence[AnyMessage], runtime: Runtime[ActiveTurn]
    ) -> None:
        start = start_of_turn(messages)
        active.user_message = trimmed(str(messages[start].text), LONGEST_SAID) if messages else ""
        active.can_go_on = runtime.execution_info is not None and runtime.execution_info.thread_id is not None
        active.request = request_of(kept, active.request)
        reading = asyncio.ensure_future(self._past(active, begun=start > 0))
        try:
            if active.resumed:
                active.request, active.recorded = await is_open(self._client, active.request)
            active.turn = await self._client.bind_turn(active.request)
            active.tools = tools_of(active.turn)
            active.episode = await reading
        except (DependencyUnavailable, Overloaded, DeadlineExceeded) as error:
            active.unbound_because = error
        finally:
            reading.cancel()
        active.kept = kept

    async def _past(self, active: ActiveTurn, *, begun: bool) -> Episode | None:
        """Return the stored history of a conversation; None for a first turn, without compaction, or if it is late."""
        chosen = self._rules.compaction
        if not chosen or not begun:
            return None
        return await read_stored_history(self._client, active.request, chosen.read_timeout)

    async def end(self, left: OpenTurn, asked: TurnRequest) -> None:
        """End a turn that no run will continue, and stop its sub-agents. Does not raise if the sidecar is away."""
        try:
            turn = await self._client.bind_turn(request_of(left, asked), timeout=ABANDON)
            await turn.end(timeout=ABANDON)
        except (SubagentsError, ForeignTurn) as error:
            LOG.info("an abandoned turn is left to the sidecar to end: %s", type(error).__name__)
