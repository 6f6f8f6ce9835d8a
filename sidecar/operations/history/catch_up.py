"""Finds recorded turns that ended but are not in the episode memory, and stores them. Source: PC1-FR-9a.

At the start, these are turns of a process that was killed between the end of a turn and its capture. Later, they are
turns that did not fit into the queue. Turns that began before `catch_up_window`, and turns beyond
`catch_up_max_turns`, are not checked. Appending is idempotent, so several replicas may do this at the same time.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.executing.stored_record import TurnQuery, TurnRow
from sidecar.core.history.records import EpisodeKey
from sidecar.core.identifiers import TurnId
from sidecar.operations.first_result import FirstResult
from sidecar.operations.history.capture import FIRST_WAIT, LONGEST_WAIT, HistoryCapture, history_on_record
from sidecar.operations.history.memory_boundary import BoundedMemory
from sidecar.operations.ports import Clock
from sidecar.operations.record.ports import RecordReads, is_of_unreadable_turn
from sidecar.operations.record.timed_access import complete_turns
from sidecar.operations.rules import HistoryRules

PAGE: Final = 100
"""Turns in one read of the list."""


class HistoryCatchUp:
    """The loop that stores missing turns.

    Args:
        record: only read.
        memory: checked for missing turns.
    """

    def __init__(
        self, record: RecordReads, memory: BoundedMemory, captures: HistoryCapture, clock: Clock, rules: HistoryRules
    ) -> None:
        """Begin before the first pass."""
        self._record = record
        self._memory = memory
        self._captures = captures
        self._clock = clock
        self._rules = rules
        self._first: FirstResult[None] | None = None

    async def run(self) -> None:
        """Make a pass at the start and whenever turns were missed; the supervisor owns this loop."""
        self._first = self._first or FirstResult()
        wait = FIRST_WAIT
        while True:
            try:
                await self.look()
            except SubagentsError:  # the store or the memory has reported it already
                # Settled also by a failure: reads of conversations wait for the first pass, but not for a store that is
                # away.
                self._first.settle(None)
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
                continue
            self._first.settle(None)
            wait = FIRST_WAIT
            await self._captures.missed.wait()
            # Replaced before the pass: a turn that is missed during the pass settles the new result and causes another
            # one.
            self._captures.missed = FirstResult()
            # The pass would take turns that are still in the queue for missing ones.
            await self._captures.idle()

    async def looked(self) -> None:
        """Wait until the first pass has ended or failed; returns immediately if no pass runs."""
        if self._first is not None:
            await self._first.wait()

    async def look(self) -> int:
        """Make one pass; return the number of missing turns. Raises `StoreUnavailable`, `MemoryUnavailable`."""
        missing = 0
        kept: dict[EpisodeKey, dict[TurnId, bool]] = {}
        for row in await self._ended():
            episode = EpisodeKey(row.episode_id, row.principal)
            # One read for each episode, however many of its turns are checked.
            if episode not in kept:
                contents = await self._memory.read(episode, self._rules.episode_turns)
                # An older turn of a long episode is not among them. It is stored once more, which changes nothing.
                kept[episode] = {turn.turn_id: True for turn in contents.turns}
            if row.turn_id in kept[episode]:
                continue
            try:
                stored = await self._record.turn(row.turn_id)
            except StoreUnavailable as why:
                if not is_of_unreadable_turn(why):
                    raise
                # The other turns must not wait for a sidecar that can read this one.
                self._captures.note_unreadable(row.turn_id, why)
                continue
            history = history_on_record(stored) if stored else None
            if history is not None:
                await self._captures.again(history)
                missing += 1
        return missing

    async def _ended(self) -> Sequence[TurnRow]:
        """Return the turns to check, in the order in which they ended."""
        since = self._clock.now() - self._rules.catch_up_window
        found: list[TurnRow] = []
        query = TurnQuery(limit=PAGE)
        while len(found) < self._rules.catch_up_max_turns:
            rows = await complete_turns(self._record, query)
            found += [row for row in rows if row.ended_at is not None and row.began_at >= since]
            if len(rows) < PAGE or rows[-1].began_at < since:
                break
            query = TurnQuery(limit=PAGE, before=(rows[-1].began_at, rows[-1].turn_id))
        newest = found[: self._rules.catch_up_max_turns]
        # Oldest first: a memory appends, so the order of storing becomes the order of the conversation.
        return sorted(newest, key=lambda row: (row.ended_at or row.began_at, row.turn_id))
