"""Detects the bind at which a transition first takes effect. Source: PF1-D-48, TN-85.

A bind only compares two references. The first bind with a new view queues the view's transitions that were not queued
before, and a loop notes them at the store. The store answers which replica was the first; only that replica
reports the transition to its recorder.

A write that takes too long is given up, although it may still be carried out. The next pass repeats it, and the store
answers the same, so a transition is reported although the first answer was lost.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Final

from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.events import TransitionEvent
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.ports import Clock
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.audit.audit_log import pages_of
from sidecar.operations.rollout.store.ports import AuditQuery, RolloutRecorder, RolloutStore

INTERVAL: Final = timedelta(seconds=1)
LONGEST_WRITE: Final = 5.0
"""Seconds to note one queued transition, or all transitions of replaced definitions."""
MOST_ROWS: Final = 1000
"""The most audit rows that are searched for transitions of replaced definitions."""
REACHED: Final = {
    LifecycleState.DEV: (),
    LifecycleState.TEST: (LifecycleState.TEST,),
    LifecycleState.PROMOTE: (LifecycleState.TEST, LifecycleState.PROMOTE),
    LifecycleState.ROLLBACK: (LifecycleState.TEST, LifecycleState.PROMOTE, LifecycleState.ROLLBACK),
}
"""All transitions that lead to a state. A view may skip intermediate states, but each transition has happened."""


class EffectiveTransitions:
    """Looks at the view of each bind, and notes transitions that took effect at the store.

    Args:
        store: stores when a transition took effect.
        clock: for that time.
        recorder: receives each transition once, from the replica that noted it first.
    """

    def __init__(self, store: RolloutStore, clock: Clock, recorder: RolloutRecorder) -> None:
        """Begin with nothing bound."""
        self._store = store
        self._clock = clock
        self._recorder = recorder
        self._bound: RolloutView | None = None  # the view of the last bind
        self._searched: RolloutView | None = None  # the last view for which replaced definitions were searched
        self._effective_at: dict[str, datetime] = {}
        self._queue: deque[tuple[Slot, DefinitionId, str]] = deque()
        self._queued: set[str] = set()  # by event id; also those that the queue no longer contains
        self._replaced: dict[str, TransitionEvent] = {}  # of replaced definitions, by event id, until they are noted
        self._news = asyncio.Event()

    def bound(self, view: RolloutView) -> RolloutView:
        """Note that a turn is bound with `view`, and return the view. Runs for every bind; memory only."""
        # Views are immutable, so identity tells whether anything changed. A bind may cost no more than this comparison.
        if view is not self._bound:
            self._bound = view
            self._queue_transitions(view)
        return view

    async def run(self) -> None:
        """Note transitions at the store periodically; the supervisor owns this loop."""
        while True:
            await self.look()
            try:
                async with asyncio.timeout(INTERVAL.total_seconds()):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def look(self) -> None:
        """Note queued transitions at the store; the next pass repeats what the store did not accept."""
        # Before the work: a bind that queues a transition during it causes another pass.
        self._news.clear()
        while self._queue:
            slot, definition_id, event_id = self._queue[0]
            done = await read_within(self._note(slot, definition_id, event_id), LONGEST_WRITE)
            # The transition stays the first one, so that transitions are noted in the order in which they happened.
            if isinstance(done, StoreUnavailable):
                return
            self._queue.popleft()
            self._effective_at.pop(event_id, None)
        if self._bound is not None and self._bound is not self._searched:
            await read_within(self._note_replaced(self._bound), LONGEST_WRITE)

    async def _note_replaced(self, view: RolloutView) -> None:
        """Note transitions of definitions whose contents were replaced between two binds.

        No bound view has the digest of the replaced contents, so `_queue_transitions` never sees these transitions.
        They count as effective from this bind on. Otherwise they would stay unexported: sinks get only effective ones.
        """
        rows = await self._store.unexported(MOST_ROWS)
        if await self._store.version() != view.version:
            return  # the view is outdated and may miss definitions; the next one has them
        for row in rows:
            event, rollout = row.body, view.slots.get(row.slot)
            if not isinstance(event, TransitionEvent) or row.effective_at is not None or rollout is None:
                continue
            if event.digest not in rollout.definitions:
                self._replaced[event.event_id] = event
        # Kept until each is noted: after a lost answer the store no longer returns the row as one without effect.
        for event_id, event in tuple(self._replaced.items()):
            if await self._store.became_effective([event_id], self._clock.now()):
                self._recorder.transitioned(event)
            del self._replaced[event_id]
        self._searched = view  # only now: if the store fails before, the next pass searches again

    async def _note(self, slot: Slot, definition_id: DefinitionId, event_id: str) -> None:
        """Note one transition at the store. If this sidecar is the first to note it, report it to the recorder."""
        at = self._effective_at[event_id]
        if await self._store.became_effective([event_id], at):
            await self._report(slot, definition_id, event_id, at)

    async def _report(self, slot: Slot, definition_id: DefinitionId, event_id: str, at: datetime) -> None:
        """Find the audit event of a transition, and pass it to the recorder; needed once per transition."""
        async with aclosing(pages_of(self._store, AuditQuery(slot=slot, definition_id=definition_id))) as pages:
            async for page in pages:
                for row in page:
                    event = row.body
                    if isinstance(event, TransitionEvent) and event.event_id == event_id:
                        self._recorder.transitioned(event)
                        if event.target_state is LifecycleState.ROLLBACK:
                            self._recorder.rolled_back(event.subagent_id, max(0.0, (at - event.at).total_seconds()))
                        # Reading on could fail, and the transition would be reported again.
                        return

    def _queue_transitions(self, view: RolloutView) -> None:
        """Queue the transitions of a view that were not queued before, with the present time. Memory only."""
        now = self._clock.now()
        # Kills that are not recorded yet, but effective from this bind on. Only the time is kept: the transition is
        # queued when a view shows the recorded kill. Before that, the store has no row that could be marked.
        for digest in sorted(view.killed):
            event_id = f"{digest}/{LifecycleState.ROLLBACK}"
            if event_id not in self._queued:
                self._effective_at.setdefault(event_id, now)
        for slot, definition_id, event_id in _transitions(view):
            if event_id in self._queued:
                continue
            self._queued.add(event_id)
            self._effective_at.setdefault(event_id, now)
            self._queue.append((slot, definition_id, event_id))
            self._news.set()


def _transitions(view: RolloutView) -> Iterator[tuple[Slot, DefinitionId, str]]:
    """Yield slot, definition id and event id of every transition that led to the states in a view."""
    for slot in sorted(view.slots):
        for facts in view.slots[slot].definitions.values():
            for state in REACHED[facts.state]:
                yield slot, facts.definition_id, f"{facts.digest}/{state}"
