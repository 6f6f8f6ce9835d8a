"""What a sub-agent and its user said before in this session: its own turns, never another's. Source: PC1-FR-7."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from subagents_client.runner import Run


@dataclass(frozen=True, slots=True)
class OwnTurn:
    """One earlier turn of this sub-agent in this session.

    Attributes:
        asked: what it was asked.
        answered: what it answered: narration only.
    """

    asked: str
    answered: str


HistoryReader = Callable[[Run], Awaitable[Sequence[OwnTurn]]]
"""Returns the own turns of a run, oldest first."""


class PastTurn(Protocol):
    """A turn as a run hands it out."""

    @property
    def asked(self) -> str:
        """What the sub-agent was asked."""
        ...

    @property
    def answered(self) -> str:
        """What it answered."""
        ...


@runtime_checkable
class ReadsOwnTurns(Protocol):
    """A run whose gateway knows the sub-agent's earlier turns."""

    async def read_own_turns(self) -> Sequence[PastTurn]:
        """Return them, oldest first."""
        ...


async def own_turns(run: Run) -> Sequence[OwnTurn]:
    """Read them through the gateway, with the grant of the attempt; none where the SDK cannot do that."""
    if not isinstance(run, ReadsOwnTurns):
        return ()
    return [OwnTurn(turn.asked, turn.answered) for turn in await run.read_own_turns()]
