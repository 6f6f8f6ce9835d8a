"""The bench of the episode memory suite, and the turns and summaries that the suite stores."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from sidecar.core.history.records import EpisodeKey, SubAgentAnswer, Summary, ToolMessage, TurnHistory
from sidecar.core.identifiers import CallId, EpisodeId, Principal, Slot, TurnId
from sidecar.policy.memory import EpisodeMemory

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
EPISODE = EpisodeKey(EpisodeId("episode-1"), Principal("user-1"))
OTHER_EPISODE = EpisodeKey(EpisodeId("episode-2"), Principal("user-1"))
OTHER_USER = EpisodeKey(EpisodeId("episode-1"), Principal("user-2"))
SHOP, REWARDS = Slot("shop"), Slot("rewards")


class EpisodeMemoryBench(ABC):
    """A storage of episodes, empty at first, and memories that use it. Plugin authors subclass it."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the storage while the block runs; other methods are called inside. Override it to start a storage."""
        yield

    @abstractmethod
    def make(self) -> EpisodeMemory:
        """Return a new memory. With ability `durable`, all memories of one bench share their storage."""


def a_turn(number: int, *slots: Slot, episode: EpisodeKey = EPISODE, narration: str = "") -> TurnHistory:
    """Return a turn in which each of `slots` answered and rendered one component."""
    turn_id = TurnId(f"turn-{number}")
    calls = [(place, slot, CallId(f"call-{place}")) for place, slot in enumerate(slots)]
    return TurnHistory(
        episode=episode,
        turn_id=turn_id,
        ended_at=BEGAN + timedelta(minutes=number),
        user_message=f"question {number}",
        narration=narration or f"answer {number}",
        answers=tuple(
            SubAgentAnswer(slot, call, f"asked {slot} {number}", f"{slot} said {number}") for _, slot, call in calls
        ),
        tool_messages=tuple(
            ToolMessage(
                turn_id, slot, call, place, f"render_{slot}", f'{{"id": "{slot}-{number}"}}', '{"a": [1, null]}'
            )
            for place, slot, call in calls
        ),
    )


def a_summary(revision: int, up_to: int, text: str = "what was said") -> Summary:
    """Return a summary up to the turn of that number."""
    return Summary(revision, text, TurnId(f"turn-{up_to}"), BEGAN)
