"""One turn while it is carried out: what the middleware keeps between the steps of the graph, and its end."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

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
from subagents_langchain.costs import Costs
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
        words: one line for the user.
        type: the typed status event that it was made of.
        sub_agent_ids: who reported it.
        count: reports folded into one.
    """

    words: str
    type: str
    sub_agent_ids: Sequence[str]
    count: int


@dataclass(frozen=True, slots=True)
class AnswerAmended:
    """Sentences that were appended to an answer which did not say what is missing; an item of the custom stream."""

    text: str


TurnEvent = Preamble | StatusLine | AnswerAmended
"""What the orchestrator puts into the custom stream."""


@dataclass(slots=True, eq=False)
class TurnInHand:
    """The context of one run of the agent's graph. Made by `turn_in_hand`, one per turn.

    Attributes:
        request: what the turn is bound with.
        costs: the extra model calls so far.
        turn: None until it is bound, and if it could not be.
        unbound_because: why it could not be bound; None otherwise.
        said: the user's message; empty before the graph has begun.
        episode: what the memory knows of the conversation; None if it was not asked or did not say in time.
        tools: the sub-agents as tools.
        results: of each dispatch.
        prior_context: the summary; None until a switch asked for one, empty if there was nothing to sum up.
        missing_intents: (declared, called), until the model was asked once more.
        asked_again: it was.
        answer: as the user reads it; empty before it is composed.
        end: how the turn ended; None before, and if the sidecar could not be told.
    """

    request: TurnRequest
    costs: Costs
    turn: BoundTurn | None = None
    unbound_because: SubagentsError | None = None
    said: str = ""
    episode: Episode | None = None
    tools: Sequence[BaseTool] = ()
    results: list[DispatchResult] = field(default_factory=list)
    prior_context: str | None = None
    missing_intents: tuple[int, int] | None = None
    asked_again: bool = False
    answer: str = ""
    end: TurnEnd | None = None

    @property
    def outcomes(self) -> Iterator[CallOutcome]:
        """The outcomes of all calls so far, in emission order."""
        return (outcome for result in self.results for outcome in result.outcomes)

    def outcome(self, call_id: str) -> CallOutcome | None:
        """Return the outcome of a call; None if there was none of that id."""
        return next((one for one in self.outcomes if one.call_id == call_id), None)

    def may_dispatch(self) -> bool:
        """Whether the sidecar takes another dispatch in this turn."""
        return self.turn is not None and len(self.results) < self.turn.surface.max_dispatches_per_turn

    async def close(self, *, abandoned: bool) -> None:
        """End the turn with a verdict on every child that is known. A sidecar that is away is not waited for."""
        if self.turn is None:
            return
        narration = "" if abandoned else trimmed(self.answer, LONGEST_NARRATION)
        integrations = [_integration(one, abandoned=abandoned) for one in self.outcomes if one.child_id]
        try:
            self.end = await self.turn.end(
                narration, integrations, user_message=self.said, timeout=ABANDON if abandoned else None
            )
        except SubagentsError:
            self.end = None  # the user has the answer, and the sidecar ends the turn by itself when its time is over


def _integration(outcome: CallOutcome, *, abandoned: bool) -> Integration:
    if abandoned:
        return Integration(outcome.child_id, Verdict.REJECTED, "the turn was abandoned")
    if outcome.answered:
        return Integration(outcome.child_id, Verdict.ACCEPTED)
    return Integration(outcome.child_id, Verdict.REJECTED, "there was no answer")


@asynccontextmanager
async def turn_in_hand(request: TurnRequest, rules: OrchestratorRules) -> AsyncIterator[TurnInHand]:
    """Give the context for one run of the graph, and end the turn afterwards, whatever happened.

    Source: PC2-FR-15a.
    """
    hand = TurnInHand(request, Costs(rules.prices, rules.on_extra_call))
    try:
        yield hand
    except BaseException:
        await hand.close(abandoned=True)
        raise
    await hand.close(abandoned=False)


def trimmed(text: str, most_bytes: int) -> str:
    """Return the text, cut at a character so that it has at most so many bytes as UTF-8."""
    return text.encode("utf-8")[:most_bytes].decode("utf-8", errors="ignore")
