"""Detects the bind at which a transition first takes effect, once over all replicas. Source: PF1-D-48, TN-85.

A bind only compares two references. The difference of a new view is computed once per view, and a loop informs the
store. The store decides which of several replicas was first.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
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
MOST: Final = 1000
"""Rows that are searched for transitions of revised definitions."""
REACHED: Final = {
    LifecycleState.DEV: (),
    LifecycleState.TEST: (LifecycleState.TEST,),
    LifecycleState.PROMOTE: (LifecycleState.TEST, LifecycleState.PROMOTE),
    LifecycleState.ROLLBACK: (LifecycleState.TEST, LifecycleState.PROMOTE, LifecycleState.ROLLBACK),
}
"""All transitions that lead to a state. A view may skip intermediate states, but each transition has happened."""


class EffectiveTransitions:
    """Notes the view of each bind, and reports transitions that took effect to the store.

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
        self._bound: RolloutView | None = None
        self._searched: RolloutView | None = None
        self._first: dict[str, datetime] = {}
        self._waiting: deque[tuple[Slot, DefinitionId, str]] = deque()
        self._told: dict[str, bool] = {}
        self._unreported: dict[str, bool] = {}
        self._news = asyncio.Event()

    def bound(self, view: RolloutView) -> RolloutView:
        """Note that a turn is bound with `view`, and return the view. Runs for every bind; memory only."""
        # Views are immutable, so identity tells whether anything changed. A bind may cost no more than this comparison.
        if view is not self._bound:
            self._bound = view
            self._see(view)
        return view

    async def run(self) -> None:
        """Report to the store periodically; the supervisor owns this loop."""
        while True:
            await self.look()
            try:
                async with asyncio.timeout(INTERVAL.total_seconds()):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def look(self) -> None:
        """Report new transitions to the store; the next pass repeats what the store did not accept."""
        # Before the work: a bind that notes a transition during it causes another pass.
        self._news.clear()
        while self._waiting:
            slot, definition_id, event_id = self._waiting[0]
            done = await read_within(self._tell(slot, definition_id, event_id), LONGEST_WRITE)
            # The transition stays the first one, so that transitions are reported in the order in which they happened.
            if isinstance(done, StoreUnavailable):
                return
            self._waiting.popleft()
            self._first.pop(event_id, None)
        if self._bound is not None and self._bound is not self._searched:
            await read_within(self._tell_of_revised(self._bound), LONGEST_WRITE)

    async def _tell_of_revised(self, view: RolloutView) -> None:
        """Report transitions of definitions that were revised before any bind: no view has their earlier digest."""
        rows = await self._store.unexported(MOST)
        if await self._store.version() != view.version:
            return  # the view is outdated and may miss definitions; the next one has them
        self._searched = view
        for row in rows:
            event, rollout = row.body, view.slots.get(row.slot)
            if not isinstance(event, TransitionEvent) or row.effective_at is not None or rollout is None:
                continue
            if event.digest not in rollout.definitions and await self._store.became_effective(
                [event.event_id], self._clock.now()
            ):
                self._recorder.transitioned(event)

    async def _tell(self, slot: Slot, definition_id: DefinitionId, event_id: str) -> None:
        """Note one transition; the first sidecar to note it reports it, now or when the store is available again."""
        at = self._first[event_id]
        if await self._store.became_effective([event_id], at):
            # Kept over failures: the store says "first" only once, so a report that fails must be remembered here.
            self._unreported[event_id] = True
        if event_id in self._unreported:
            await self._report(slot, definition_id, event_id, at)
            del self._unreported[event_id]

    async def _report(self, slot: Slot, definition_id: DefinitionId, event_id: str, at: datetime) -> None:
        """Report a transition that was not reported yet; the event itself is read once, when it takes effect."""
        async for page in pages_of(self._store, AuditQuery(slot=slot, definition_id=definition_id)):
            for row in page:
                event = row.body
                if isinstance(event, TransitionEvent) and event.event_id == event_id:
                    self._recorder.transitioned(event)
                    if event.target_state is LifecycleState.ROLLBACK:
                        self._recorder.rolled_back(event.subagent_id, max(0.0, (at - event.at).total_seconds()))

    def _see(self, view: RolloutView) -> None:
        now = self._clock.now()
        for digest in sorted(view.killed):  # not recorded yet, but effective from this bind on
            # Only the time is kept. The transition is not on record yet, so there is no row that could be marked.
            event_id = f"{digest}/{LifecycleState.ROLLBACK}"
            if event_id not in self._told:
                self._first.setdefault(event_id, now)
        for slot, definition_id, event_id in _transitions(view):
            if event_id in self._told:
                continue
            self._told[event_id] = True
            self._first.setdefault(event_id, now)
            self._waiting.append((slot, definition_id, event_id))
            self._news.set()


def _transitions(view: RolloutView) -> Iterator[tuple[Slot, DefinitionId, str]]:
    for slot in sorted(view.slots):
        for facts in view.slots[slot].definitions.values():
            for state in REACHED[facts.state]:
                yield slot, facts.definition_id, f"{facts.digest}/{state}"
