"""The database port and the store port, in memory. "Durable" means here: as long as the process lives."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

from sidecar.adapters.record_memory.contents import ChildKept, DispatchKept, RecordInMemory, TurnKept
from sidecar.core.dispatching.routing_record import RoutingRecord, distinct
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.events import FAILED_STATUS, ChildEvent
from sidecar.core.executing.records import AttemptRecorded, DispatchOpened, Record
from sidecar.core.executing.stored_record import (
    ClosedChild,
    ClosedState,
    EpisodeRow,
    RetentionMarker,
    StoredChild,
    StoredDispatch,
    StoredTurn,
    TurnQuery,
    TurnRow,
    TurnState,
)
from sidecar.core.identifiers import ChildId, DispatchId, EpisodeId, InstanceId, Slot, TurnId

ONLY: InstanceId = InstanceId("this-process")
LOST = "parent_lost"


class MemoryDatabase:
    """The database port over a `RecordInMemory`, for one instance.

    Args:
        contents: shared by all instances of one record.
        instance: who appends.
        alive: says which others are; nobody, if not given. This one always counts as alive for itself.
    """

    def __init__(
        self,
        contents: RecordInMemory | None = None,
        instance: InstanceId = ONLY,
        alive: Callable[[InstanceId], bool] | None = None,
    ) -> None:
        self.contents = contents or RecordInMemory()
        self._instance = instance
        self._others_alive = alive

    @property
    def instance(self) -> InstanceId:
        """Who appends."""
        return self._instance

    async def commit(self, records: Sequence[Record]) -> None:
        """Append one group."""
        self.contents.append(records, self._instance)

    async def renew_lease(self) -> None:
        """Do nothing: who lives in one memory lives as long."""

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    # --- reads of running turns

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return all of a turn."""
        kept = self.contents.turns.get(turn_id)
        if kept is None:
            return None
        return StoredTurn(
            turn_id=turn_id,
            dispatches=tuple(self._stored(each) for each in kept.dispatches.values()),
            children=tuple(_stored_child(each) for each in kept.children.values()),
            ended=kept.ended,
            routing=kept.routing,
        )

    async def child_events(self, child_id: ChildId) -> Sequence[ChildEvent]:
        """Return the events of one child."""
        kept = self.contents.turns.get(self.contents.turn_of.get(child_id, TurnId("")))
        return tuple(kept.children[child_id].events) if kept else ()

    async def routing_record(self, turn_id: TurnId) -> RoutingRecord | None:
        """Return the routing decision of a turn."""
        kept = self.contents.turns.get(turn_id)
        return kept.routing if kept else None

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots of the episode's last ended turn that called any."""
        return self.contents.last_called.get(episode_id, ())

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches that nobody goes on with."""
        found = [
            (turn_id, dispatch_id)
            for turn_id, turn in self.contents.turns.items()
            for dispatch_id, dispatch in turn.dispatches.items()
            if turn.ended is None and not self._stored(dispatch).settled and not self._is_alive(dispatch.owner)
        ]
        return found[:limit]

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns whose parent is lost."""
        found = [
            turn_id
            for turn_id, turn in self.contents.turns.items()
            if turn.ended is None and any(each.opened.turn_expires_at < now for each in turn.dispatches.values())
        ]
        return found[:limit]

    async def turns(self, query: TurnQuery) -> Sequence[TurnRow]:
        """Return a list of turns."""
        rows = [_row(turn_id, turn) for turn_id, turn in self.contents.turns.items()]
        fitting = [row for row in rows if _fits(row, query)]
        return sorted(fitting, key=lambda row: (row.began_at, row.turn_id), reverse=True)[: query.limit]

    async def episodes(self, limit: int) -> Sequence[EpisodeRow]:
        """Return the episodes used last."""
        rows: dict[tuple[str, str], list[TurnRow]] = {}
        for turn_id, turn in self.contents.turns.items():
            row = _row(turn_id, turn)
            rows.setdefault((row.episode_id, row.principal), []).append(row)
        found = [_episode(sorted(of_one, key=lambda row: row.began_at)) for of_one in rows.values()]
        return sorted(found, key=lambda row: row.last_at, reverse=True)[:limit]

    async def attempts(self, turn_id: TurnId) -> Sequence[AttemptRecorded]:
        """Return what the runners sent in a turn."""
        kept = self.contents.turns.get(turn_id)
        return sorted(kept.attempts.values(), key=lambda each: (each.child_id, each.number)) if kept else ()

    # --- archive

    async def closed_states(self) -> Sequence[ClosedState]:
        """Return where the running roots stand."""
        states = [
            ClosedState(instance, links[-1].number, links[-1].root)
            for instance, links in self.contents.roots.items()
            if links  # else all it closed was refused
        ]
        return sorted(states, key=lambda each: each.instance)

    async def closed_children(self, instance: InstanceId) -> AsyncIterator[ClosedChild]:
        """Go through the links of a running root."""
        removed = max((each.number for each in self.contents.markers if each.instance == instance), default=0)
        for link in self.contents.roots.get(instance, ()):
            if link.number > removed:
                yield link

    async def children(self) -> AsyncIterator[StoredChild]:
        """Go through all children."""
        for turn in self.contents.turns.values():
            for child in turn.children.values():
                yield _stored_child(child)

    async def markers(self) -> Sequence[RetentionMarker]:
        """Return every marker."""
        return sorted(self.contents.markers, key=lambda each: (each.instance, each.number))

    async def purgeable(self, closed_before: datetime) -> Sequence[ClosedState]:
        """Return up to where everything is old enough."""
        found = []
        for instance, links in sorted(self.contents.roots.items()):
            last = None
            async for link in self.closed_children(instance):
                if not self._old_enough(link.child_id, closed_before):
                    break
                last = link
            if last is not None and links:
                found.append(ClosedState(instance, last.number, last.root))
        return found

    async def purge(self, markers: Sequence[RetentionMarker]) -> int:
        """Keep the markers, and remove what they cover."""
        for marker in markers:
            links = self.contents.roots.get(marker.instance, [])
            if not 0 < marker.number <= len(links) or links[marker.number - 1].root != marker.root:
                raise RecordConflict("the marker does not fit the running root", metadata={"instance": marker.instance})
        gone = {link.child_id for marker in markers for link in self.contents.roots[marker.instance][: marker.number]}
        self.contents.markers.extend(markers)
        removed = 0
        for turn_id, turn in list(self.contents.turns.items()):
            covered = [child_id for child_id in turn.children if child_id in gone]
            removed += len(covered)
            if covered and len(covered) == len(turn.children):
                self.contents.forget(turn_id)
        return removed

    async def purge_childless(self, before: datetime) -> int:
        """Remove turns that never had a child, or have none left."""
        gone = [
            turn_id
            for turn_id, turn in self.contents.turns.items()
            if not turn.children and turn.ended is not None and turn.ended.ended_at < before
        ]
        for turn_id in gone:
            self.contents.forget(turn_id)
        return len(gone)

    async def purge_frames(self, before: datetime) -> int:
        """Remove what runners sent."""
        removed = 0
        for turn in self.contents.turns.values():
            if turn.ended is not None and turn.ended.ended_at < before:
                removed += len(turn.attempts)
                for attempt in turn.attempts.values():
                    self.contents.records.pop(attempt.record_id, None)
                turn.attempts.clear()
        return removed

    def records(self) -> tuple[Record, ...]:
        """Return everything, in order of append; for tests and the demo's timelines."""
        return tuple(self.contents.records.values())

    def _is_alive(self, owner: InstanceId) -> bool:
        return owner == self._instance or (self._others_alive is not None and self._others_alive(owner))

    def _stored(self, kept: DispatchKept) -> StoredDispatch:
        outcomes = tuple(each.outcome for each in kept.outcomes())
        return StoredDispatch(kept.opened, kept.owner, kept.epoch, self._is_alive(kept.owner), outcomes)

    def _old_enough(self, child_id: ChildId, closed_before: datetime) -> bool:
        turn = self.contents.turns.get(self.contents.turn_of.get(child_id, TurnId("")))
        if turn is None:
            return True  # forgotten already
        if turn.ended is None:
            return False
        last = max(child.events[-1].time for child in turn.children.values())
        return max(last, turn.ended.ended_at) < closed_before


class MemoryStore(MemoryDatabase):
    """The store port: nothing has to be waited for.

    Attributes:
        waits, shared: never, see the port.
    """

    waits = False
    shared = False

    async def append(self, records: Sequence[Record]) -> None:
        """Keep `records`."""
        self.contents.append(records, self._instance)


def _stored_child(kept: ChildKept) -> StoredChild:
    return StoredChild(kept.opened, tuple(kept.events))


def _row(turn_id: TurnId, turn: TurnKept) -> TurnRow:
    first = min((each.opened for each in turn.dispatches.values()), key=lambda each: each.opened_at, default=None)
    ended = turn.ended
    of_turn = first or ended
    if of_turn is None:
        raise LookupError(f"nothing of turn {turn_id} says when it began")
    children = sorted(turn.children.values(), key=lambda child: child.opened.step_idx)
    return TurnRow(
        turn_id=turn_id,
        episode_id=of_turn.episode_id,
        principal=of_turn.principal,
        state=TurnState.OPEN if ended is None else TurnState.LOST if ended.close_reason == LOST else TurnState.ENDED,
        began_at=of_turn.opened_at if isinstance(of_turn, DispatchOpened) else of_turn.ended_at,
        ended_at=ended.ended_at if ended else None,
        slots=distinct([child.opened.slot for child in children]),
        children=len(children),
        failed=sum(1 for child in children if child.closed and _final_status(child) == FAILED_STATUS),
    )


def _final_status(child: ChildKept) -> str:
    return str(child.events[-1].details().get("final_status"))


def _fits(row: TurnRow, query: TurnQuery) -> bool:
    return (
        query.episode_id in {None, row.episode_id}
        and query.state in {None, row.state}
        and (query.slot is None or query.slot in row.slots)
        and (query.before is None or (row.began_at, row.turn_id) < query.before)
    )


def _episode(rows: list[TurnRow]) -> EpisodeRow:
    slots = distinct([slot for row in rows for slot in row.slots])
    return EpisodeRow(rows[0].episode_id, rows[0].principal, len(rows), rows[0].began_at, rows[-1].began_at, slots)
