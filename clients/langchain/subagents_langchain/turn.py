"""One turn while it is carried out: what the middleware keeps between the steps of the graph, and its end."""

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
"""Longest time for ending a turn that was interrupted."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """What the user reads while sub-agents are asked; an item of LangGraph's custom stream."""

    text: str


@dataclass(frozen=True, slots=True)
class StatusLine:
    """Progress in words; an item of LangGraph's custom stream.

    Attributes:
        text: one line for the user.
        type: the typed status event that it was made of.
        sub_agent_ids: who reported it.
        count: reports folded into one.
    """

    text: str
    type: str
    sub_agent_ids: Sequence[str]
    count: int


TurnEvent = Preamble | StatusLine | MissingNote
"""What the orchestrator puts into the custom stream."""


@dataclass(slots=True, eq=False)
class ActiveTurn:
    """The context of one run of the agent's graph. Made by `active_turn`, one per run.

    Applications read it and change nothing. The middleware keeps its own state here as well, which may change in any
    release: `asked`, `asked_again`, `binding`, `can_go_on`, `dispatched`, `finished`, `gatherings`, `kept`, `made`,
    `missing_intents`, `recorded`, `resumed` and all methods except `prompt`.

    Attributes:
        request: what the turn is bound with.
        costs: the extra model calls so far.
        turn: None until it is bound, and if it could not be.
        unbound_because: why it could not be bound; None otherwise.
        kept: what the graph's state keeps of the turn; None before the run has begun it, or gone on with it.
        resumed: the run goes on with a turn that an earlier one began.
        recorded: of a resumed turn that was over, and was followed by another: what was dispatched in it.
        can_go_on: the graph keeps checkpoints, so that another run can go on with the turn.
        user_message: the user's message; empty before the graph has begun.
        episode: what the memory knows of the conversation; None if it was not asked or did not say in time.
        tools: the sub-agents as tools.
        dispatched: how many dispatches of the turn earlier runs have brought to their end.
        made: ids of the calls in responses that were made in this run.
        gatherings: of the responses, by message id.
        results: of each dispatch of this run, and of those that it has found again.
        prior_context: the summary; None until a switch asked for one, empty if there was nothing to sum up.
        missing_intents: (declared, called), until the model was asked once more.
        asked_again: it was.
        finished: the agent has come to its end.
        asked: what the model is asked to state with its next response; None before the first call of the model.
        answer: as the model composed it, without its statement; empty before.
        missing: the calls that did not fully succeed; known with the answer.
        stated: ids of those that the answer acknowledges.
        notes: what the user is told of all others.
        full_text: answer and notes as one text.
        end: how the turn ended; None before, and if the sidecar could not be told.
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
        """Whether the sidecar takes another dispatch in this turn."""
        dispatched = self.dispatched + len(self.results)
        return self.turn is not None and dispatched < self.turn.surface.max_dispatches_per_turn

    def prompt(self, notes: Sequence[str]) -> str:
        """Return the prefix, which providers cache, what this call is told besides, and the suffix, always last."""
        if self.turn is None:
            return ""
        prompt = self.turn.surface.prompt
        return "".join([prompt.prefix, *(f"\n{note}\n" for note in notes), prompt.suffix])

    def keep(self, result: DispatchResult) -> None:
        """Keep what was dispatched; if the model declared more intents than it called, it is asked once more."""
        self.results.append(result)
        if result.intents.failsafe and not self.asked_again and self.may_dispatch():
            self.asked_again = True
            self.missing_intents = (result.intents.declared, result.intents.emitted)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background; what still runs when the turn is left is cancelled then."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def leave(self, *, abandoned: bool) -> None:
        """End the turn with a verdict on every child that is known, unless another run can go on with it.

        A sidecar that is away is not waited for.
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
            self.end = None  # the user has the answer, and the sidecar ends the turn by itself when its time is over


def _integration(outcome: CallOutcome, *, abandoned: bool) -> Integration:
    if abandoned:
        return Integration(outcome.child_id, Verdict.REJECTED, "the turn was abandoned")
    if outcome.answered or outcome.question is not None:
        return Integration(outcome.child_id, Verdict.ACCEPTED)
    return Integration(outcome.child_id, Verdict.REJECTED, "there was no answer")


@asynccontextmanager
async def active_turn(request: TurnRequest, rules: OrchestratorRules) -> AsyncIterator[ActiveTurn]:
    """Give the context for one run of the graph, and end the turn afterwards, after an exception or a cancel, too.

    Only a run with a thread, which another run can go on with, leaves the turn open if it stops before its end.

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
    """Return the text, cut at a character so that it has at most so many bytes as UTF-8."""
    return text.encode("utf-8")[:most_bytes].decode("utf-8", errors="ignore")
