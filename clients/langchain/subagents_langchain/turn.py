"""`ActiveTurn`, the state of a running turn that the middleware keeps between the steps of the graph, and its end."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from langchain_core.tools import BaseTool

from subagents_client import (
    BoundTurn,
    CallOutcome,
    DispatchResult,
    Episode,
    Integration,
    SubagentsError,
    TurnEnd,
    TurnRequest,
    Verdict,
)
from subagents_client.coalescing import CallBatch
from subagents_langchain.acknowledging.notes import MissingNote
from subagents_langchain.acknowledging.statements import StatementRequest
from subagents_langchain.costs import Costs
from subagents_langchain.open_turn import OpenTurn
from subagents_langchain.outcomes.missing import MissingKind
from subagents_langchain.rules import OrchestratorRules

LONGEST_NARRATION: Final = 256 * 1024
LONGEST_SAID: Final = 64 * 1024
ABANDON: Final = timedelta(seconds=1)
"""Timeout of requests that end an abandoned turn or cancel one of its calls."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """Text for the user while sub-agents run; an item of LangGraph's custom stream."""

    text: str


@dataclass(frozen=True, slots=True)
class StatusLine:
    """Progress of sub-agents as text; an item of LangGraph's custom stream.

    Attributes:
        text: one line for the user.
        type: type of the status update, e.g. `searching_offers`.
        sub_agent_ids: the slots that reported this type.
        count: number of reports that the line combines.
    """

    text: str
    type: str
    sub_agent_ids: Sequence[str]
    count: int


TurnEvent = Preamble | StatusLine | MissingNote
"""An item that the orchestrator writes to LangGraph's custom stream."""


@dataclass(slots=True, eq=False)
class ActiveTurn:
    """The context of one run of the agent's graph. `active_turn` creates one for each run.

    Applications may read it, but must not change it. The following parts are internal state of the middleware and may
    change in any release: `asked`, `asked_again`, `binding`, `can_go_on`, `dispatched`, `finished`, `gatherings`,
    `kept`, `made`, `missing_intents`, `recorded`, `resumed` and all methods except `prompt`.

    Attributes:
        request: the request with which the turn is bound.
        costs: the extra model calls so far.
        turn: the bound turn; None before the bind, and if the bind failed.
        unbound_because: why the bind failed; None otherwise.
        kept: the turn as it is stored in the graph's state; None before this run has begun or continued the turn.
        resumed: whether this run continues a turn that an earlier run began.
        recorded: results of the dispatches of a resumed turn that had ended at the sidecar, so that a new turn was
            bound in its place.
        can_go_on: whether the graph has a checkpointer, so that a later run can continue the turn.
        user_message: the user's message; empty before the graph has begun.
        episode: the stored history of the conversation; None if it was not read, or not in time.
        tools: the sub-agents as tools.
        dispatched: number of dispatches of the turn that earlier runs have completed.
        made: ids of the calls in responses that the model wrote in this run.
        gatherings: the batches of calls, by message id of their response.
        results: results of the dispatches of this run, including those that it found again.
        prior_context: the summary for newly called sub-agents; None before one was needed; empty if there was nothing
            to summarise.
        missing_intents: (declared intents, called sub-agents) until the model is called once more; otherwise None.
        asked_again: whether the model was called once more because of missing intents.
        finished: whether the agent has finished the turn.
        asked: the missing calls that the next response should mention; None before the first call of the model.
        answer: the model's answer without its statement of missing calls; empty before the answer.
        missing: the calls that did not fully succeed; empty before the answer.
        stated: ids of the missing calls that the answer mentions.
        notes: sentences for the user about all other missing calls.
        full_text: answer and notes as one text.
        end: how the turn ended; None before its end, and if the sidecar could not be reached.
        binding: serialises the bind of a resumed turn.
    """

    request: TurnRequest
    costs: Costs
    turn: BoundTurn | None = None
    unbound_because: SubagentsError | None = None
    kept: OpenTurn | None = None
    resumed: bool = False
    recorded: Sequence[DispatchResult] = ()
    can_go_on: bool = False
    user_message: str = ""
    episode: Episode | None = None
    tools: Sequence[BaseTool] = ()
    dispatched: int = 0
    made: set[str] = field(default_factory=set)
    gatherings: dict[str, CallBatch] = field(default_factory=dict)
    results: list[DispatchResult] = field(default_factory=list)
    prior_context: str | None = None
    missing_intents: tuple[int, int] | None = None
    asked_again: bool = False
    finished: bool = False
    asked: StatementRequest | None = None
    answer: str = ""
    missing: Sequence[MissingKind] = ()
    stated: Sequence[str] = ()
    notes: Sequence[MissingNote] = ()
    full_text: str = ""
    end: TurnEnd | None = None
    binding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def may_dispatch(self) -> bool:
        """Whether the turn is bound and has not reached `max_dispatches_per_turn`."""
        dispatched = self.dispatched + len(self.results)
        return self.turn is not None and dispatched < self.turn.surface.max_dispatches_per_turn

    def prompt(self, notes: Sequence[str]) -> str:
        """Return the system prompt: the prefix, which providers cache, then the notes, then the suffix."""
        if self.turn is None:
            return ""
        prompt = self.turn.surface.prompt
        return "".join([prompt.prefix, *(f"\n{note}\n" for note in notes), prompt.suffix])

    def keep(self, result: DispatchResult) -> None:
        """Store a result. If the model declared more intents than it called, request one more call of the model."""
        self.results.append(result)
        if result.intents.failsafe and not self.asked_again and self.may_dispatch():
            self.asked_again = True
            self.missing_intents = (result.intents.declared, result.intents.emitted)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background; `leave` cancels it if it still runs."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def leave(self, *, abandoned: bool) -> None:
        """End the turn with a verdict on every known child, unless it is unfinished and a later run can continue it.

        Does not raise if the sidecar cannot be reached: the sidecar ends the turn itself later.
        """
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.turn is None or (self.can_go_on and not self.finished):
            return
        abandoned = abandoned or not self.finished
        narration = "" if abandoned else trimmed(self.full_text, LONGEST_NARRATION)
        over = [result.dispatch_id for result in self.recorded]  # their children were closed with the turn before
        known = [one for result in self.results if result.dispatch_id not in over for one in result.outcomes]
        integrations = [_integration(one, abandoned=abandoned) for one in known if one.child_id]
        try:
            self.end = await self.turn.end(
                narration, integrations, user_message=self.user_message, timeout=ABANDON if abandoned else None
            )
        except SubagentsError:
            self.end = None  # the user has the answer, and the sidecar closes an idle turn itself


def _integration(outcome: CallOutcome, *, abandoned: bool) -> Integration:
    if abandoned:
        return Integration(outcome.child_id, Verdict.REJECTED, "the turn was abandoned")
    if outcome.answered or outcome.question is not None:
        return Integration(outcome.child_id, Verdict.ACCEPTED)
    return Integration(outcome.child_id, Verdict.REJECTED, "there was no answer")


@asynccontextmanager
async def active_turn(request: TurnRequest, rules: OrchestratorRules) -> AsyncIterator[ActiveTurn]:
    """Yield the context for one run of the graph, and end the turn after the block, also after an exception.

    If the graph has a checkpointer and the run stops before the end of the turn, the turn stays open for a later run.

    Source: PC2-FR-15a.
    """
    active = ActiveTurn(request, Costs(rules.prices, rules.on_extra_call))
    try:
        yield active
    except BaseException:
        await active.leave(abandoned=True)
        raise
    await active.leave(abandoned=False)


def trimmed(text: str, most_bytes: int) -> str:
    """Return the text, shortened to at most `most_bytes` bytes of UTF-8 without splitting a character."""
    return text.encode("utf-8")[:most_bytes].decode("utf-8", errors="ignore")
