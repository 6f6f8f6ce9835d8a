"""The boundary to the episode memory: each call has a time limit, and every failure is treated as an outage.

The memory is a plugin or a database file, and code of plugins may hang, raise anything, or return values of other
types. All operations on histories use it through this class.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, TypeVar

from sidecar.core.errors import InlineComponent, MemoryUnavailable, SummaryOutdated
from sidecar.core.history.records import EpisodeContents, EpisodeKey, EpisodeSize, OwnTurn, Summary, TurnHistory
from sidecar.core.identifiers import Principal, Slot
from sidecar.operations.bounded_wait import await_with_limit
from sidecar.operations.plugin_calls import PluginCalls, PluginFailed
from sidecar.operations.ports import Recorder
from sidecar.policy.memory import EpisodeMemory, UserEraser

Result = TypeVar("Result")
MEMORY: Final = "episode memory"
"""The name under which abandoned calls of the memory are counted."""
SECONDS_TO_ERASE: Final = 600.0
"""Longer than other calls: the database file is rewritten, so that it contains no deleted data."""


class BoundedMemory:
    """An episode memory whose calls end in time and return the right types.

    Args:
        memory: a plugin's object. It may raise and return anything, hang, and ignore cancellation.
        recorder: receives each failed call.
        limit: the longest time for one call.
        calls: runs the calls of a plugin in tasks. None: the memory is one of the sidecar's own, which end when they
            are cancelled and need no task.
    """

    def __init__(
        self, memory: EpisodeMemory, recorder: Recorder, limit: timedelta, calls: PluginCalls | None = None
    ) -> None:
        self._memory = memory
        self._calls = calls
        self._recorder = recorder
        self._limit = limit.total_seconds()

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Store a turn. Raises `MemoryUnavailable`, `InlineComponent`."""
        return await self._bounded("append", lambda: self._memory.append(turn), _is(EpisodeSize))

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Read an episode. Raises `MemoryUnavailable`, also if the memory returns turns of another episode."""

        def fits(found: object) -> bool:
            # A memory that mixes up its keys would otherwise show one user the conversation of another.
            return isinstance(found, EpisodeContents) and all(turn.episode == episode for turn in found.turns)

        return await self._bounded("read", lambda: self._memory.read(episode, most_turns), fits)

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Read one sub-agent's answers. Raises `MemoryUnavailable`."""

        def fits(found: object) -> bool:
            # Whose answers these are is checked by `ReadOwnTurns`, which drops foreign ones and reports them.
            return isinstance(found, list | tuple) and all(isinstance(each, OwnTurn) for each in found)

        return await self._bounded("own_turns", lambda: self._memory.own_turns(episode, slot, most), fits)

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Read the size. Raises `MemoryUnavailable`."""
        return await self._bounded("size", lambda: self._memory.size(episode), _is(EpisodeSize))

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the summary. Raises `MemoryUnavailable`, `SummaryOutdated`."""
        return await self._bounded(
            "write_summary", lambda: self._memory.write_summary(episode, summary), _is(EpisodeSize)
        )

    async def erase(self, principal: Principal) -> int | None:
        """Remove all episodes of a user; return how many, None if the memory cannot. Raises `MemoryUnavailable`."""
        memory = self._memory
        # An optional part of the interface; the operator learns that this memory must be erased by hand.
        if not isinstance(memory, UserEraser):
            return None
        return await self._bounded("erase", lambda: memory.erase(principal), _is(int), SECONDS_TO_ERASE)

    async def _bounded(
        self,
        what: str,
        ask: Callable[[], Awaitable[Result]],
        fits: Callable[[object], bool],
        limit: float | None = None,
    ) -> Result:
        """Return the answer of the memory to one call.

        Args:
            what: name of the call, for reports.
            ask: makes the call.
            fits: returns whether the answer has the right type.
            limit: seconds for the call; None: the limit of all calls.

        Raises:
            MemoryUnavailable: it raised, took too long, or returned a wrong type.
            InlineComponent, SummaryOutdated: the memory refused.
        """
        seconds = limit or self._limit
        try:
            if self._calls is None:
                answer = await await_with_limit(seconds, ask())
            else:
                answer = await self._calls.ask(MEMORY, seconds, ask)
        # These two are answers of a memory and not failures: callers act on them.
        except (InlineComponent, SummaryOutdated):
            raise
        except PluginFailed as failed:
            if isinstance(failed.error, InlineComponent | SummaryOutdated):
                raise failed.error from None
            raise self._unavailable(what, str(failed)) from None
        # A cancellation of the caller is no `Exception`, and passes.
        except Exception as error:  # noqa: BLE001  any failure of a memory counts as an outage
            raise self._unavailable(what, type(error).__name__) from None
        # Checked for every memory: a wrong type, or turns of another episode, must not reach a model.
        if not fits(answer):
            raise self._unavailable(what, f"returned a wrong {type(answer).__name__}")
        return answer

    def _unavailable(self, what: str, detail: str) -> MemoryUnavailable:
        self._recorder.anomaly("memory_unavailable", f"{what}: {detail}")
        return MemoryUnavailable("the episode memory did not answer", retry_after=timedelta(seconds=1))


def _is(kind: type) -> Callable[[object], bool]:
    return lambda answer: isinstance(answer, kind)
