"""Keeps all rollouts in one immutable view that binds read from memory. Source: PF1-NFR-4, PF1-FR-8, DESIGN section 8.

The store notifies of possible changes; a poll of one number every second is heartbeat and fallback. While the store
does not answer, the last known view continues to serve, and no exposure widens. Kills and ramp-downs that were made
here take effect immediately, whether or not they are on record yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from typing import Final

import msgspec

from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.step import Actor
from sidecar.core.rollout.transitions import kill, may_be_killed
from sidecar.core.rollout.view import RolloutView, in_their_place, with_ramps_down
from sidecar.operations.ports import Clock
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.requests import StepAnswer
from sidecar.operations.rollout.store.ports import RolloutRecorder, RolloutStore, StopKind, Tombstones
from sidecar.operations.rollout.store.replicas import PinnedTurnCount

POLL: Final = timedelta(seconds=1)
"""A change by another replica is noticed after this time at the latest, even if its notification is lost."""
LONGEST_READ: Final = 2.0
"""Seconds for one access to the store."""
NOT_ON_RECORD: Final = "killed at this sidecar; not on record yet"
NOT_SHOWN: Final = (
    "the step is recorded, but the binds of this replica do not use it yet, because the store does not answer; they"
    " will use it once the store answers; `--wait` waits for that"
)


class RolloutViews:
    """The present view, and the loop that refreshes it."""

    def __init__(self, store: RolloutStore, tombstones: Tombstones, clock: Clock, recorder: RolloutRecorder) -> None:
        """Start with an empty view: no user is served before the first read."""
        self._store = store
        self._tombstones = tombstones
        self._clock = clock
        self._recorder = recorder
        # The rollouts as last read. The version is below that of every store, so the first pass always reads.
        self._read = RolloutView(version=-1)
        # The same rollouts with the local stops applied: what binds use.
        self._view = self._read
        self._stopped: tuple[frozenset[Digest], frozenset[Digest]] = (frozenset(), frozenset())
        self._pinned: Callable[[], PinnedTurnCount] = PinnedTurnCount
        self._preparing: list[Callable[[frozenset[Digest]], Awaitable[None]]] = []
        self._changed = asyncio.Event()
        self._looking = asyncio.Lock()
        store.on_change(self._changed.set)

    def before_showing(self, prepare: Callable[[frozenset[Digest]], Awaitable[None]]) -> None:
        """Have `prepare` called before each new view is used, with the definitions that binds may select by this view.

        `prepare` loads their cards: a bind must not wait for the store.
        """
        self._preparing.append(prepare)

    def shown_with(self, pinned: Callable[[], PinnedTurnCount]) -> None:
        """Set the function that counts the turns bound here; the count is reported with each version.

        The function must read memory only.
        """
        self._pinned = pinned

    def current(self) -> RolloutView:
        """Return the view; reads memory only."""
        # Compared at each bind, so that a local stop takes effect with the next bind and not with the next refresh.
        stopped = (self._tombstones.all(), self._tombstones.ramped_down())
        if stopped != self._stopped:
            self._apply_stops(*stopped)
        return self._view

    async def run(self) -> None:
        """Refresh periodically and after hints; the supervisor owns this loop."""
        while True:
            # Before the first wait: the view is empty until it was read, and an empty view serves no user.
            await self.look()
            try:
                async with asyncio.timeout(POLL.total_seconds()):
                    await self._changed.wait()
            except TimeoutError:
                pass
            # Before the next `look`: a change that is announced during it sets the event again.
            self._changed.clear()

    async def look(self) -> None:
        """Check the version once; if it has changed, read all rollouts."""
        # One refresh at a time: the loop and the steps call `look`, and an older answer must not replace a newer view.
        async with self._looking:
            version = await read_within(self._store.version(), LONGEST_READ)
            if isinstance(version, StoreUnavailable):
                self._recorder.anomaly("rollout_store_away", "the store does not answer; the last known state is used")
                return
            # Not `<`: after a restored backup the version is lower, and the view must follow the record nevertheless.
            if version != self._read.version:
                rollouts = await read_within(self._store.rollouts(), LONGEST_READ)
                if isinstance(rollouts, StoreUnavailable):
                    return
                selectable = frozenset(_selectable(rollouts))
                # Before the new view is used, so that a bind finds the cards in memory. A failure is ignored: the new
                # view may contain a rollback, which must not wait for a card.
                for prepare in self._preparing:
                    await read_within(prepare(selectable), LONGEST_READ)
                self._read = RolloutView({each.slot: each for each in rollouts}, version)
                # In the same pass as the new view, without an await: no bind may see the view without the local stops.
                self._apply_stops(self._tombstones.all(), self._tombstones.ramped_down())
                for facts in (facts for each in rollouts for facts in each.definitions.values()):
                    self._recorder.known(facts.definition_id)  # counters must exist before their first increase
            # The count includes every turn that was bound by an earlier view: a bind reads the view and registers its
            # turn without an await in between.
            report = self._store.show(self._view.version, self._clock.now(), self._pinned())
            await read_within(report, LONGEST_READ)

    def _apply_stops(self, killed: frozenset[Digest], down: frozenset[Digest]) -> None:
        """Combine the rollouts that were read with the local stops."""
        self._stopped = (killed, down)
        # From what was read and not from the last combined view: a stop that was released must disappear.
        slots = self._read.slots
        killed, down = (
            killed | self._revisions_of_stopped(StopKind.KILL),
            down | self._revisions_of_stopped(StopKind.RAMP_DOWN),
        )
        self._view = RolloutView(with_ramps_down(slots, down), self._read.version, killed)

    def _revisions_of_stopped(self, kind: StopKind) -> frozenset[Digest]:
        """Return the definitions that have replaced stopped ones under the same id: a revision must not end a stop."""
        pending = [each for each in self._tombstones.pending() if each.kind is kind]
        return in_their_place(self._read.slots, [(each.slot, each.digest, each.definition_id) for each in pending])

    async def shown(self, answer: StepAnswer) -> StepAnswer:
        """Return the answer of a step, with a warning if binds here cannot use the new state yet."""
        if not answer.changed:
            return answer
        await self.look()
        rollout = self.current().slots.get(answer.slot)
        if rollout is not None and rollout.revision >= answer.revision:
            return answer
        return msgspec.structs.replace(answer, warnings=(*answer.warnings, NOT_SHOWN))

    def shown_here(self) -> RolloutView:
        """Return the view with each local kill in the form that the record will have; reads memory only."""
        view = self.current()
        pending_kills = {each.digest: each for each in self._tombstones.pending() if each.kind is StopKind.KILL}
        slots = dict(view.slots)
        for slot, rollout in view.slots.items():
            for digest in [each for each in rollout.definitions if each in view.killed]:
                stop = pending_kills.get(digest)
                at, who = (stop.at, stop.by) if stop else (self._clock.now(), "")
                # `flag_exists`: that was checked when the kill took effect, and the backend may be unavailable now.
                if may_be_killed(rollout.definitions[digest], flag_exists=True):
                    by = Actor(at=at, actor=who, reason=NOT_ON_RECORD, request_id="")
                    slots[slot] = kill(slots[slot], digest, by, flag_exists=True).rollout
        return msgspec.structs.replace(view, slots=slots)

    def served_digests(self) -> frozenset[Digest]:
        """Return every definition that a bind may select now; their cards must be in memory."""
        return frozenset(_selectable(self.current().slots.values()))


def _selectable(rollouts: Iterable[SlotRollout]) -> Iterator[Digest]:
    """Yield the definitions that binds may select: the active one and the target of each slot."""
    for each in rollouts:
        yield from (digest for digest in (each.active, each.target) if digest is not None)
