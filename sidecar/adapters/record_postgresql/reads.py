"""What is asked of the record while turns run: SQL that gives JSON, and the types that it is decoded into."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from sidecar.adapters.record_postgresql.asking import Asking, decoded
from sidecar.core.decoding import JsonDecoder
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, DispatchOpened, TurnEnded
from sidecar.core.executing.stored_record import (
    EpisodeRow,
    StoredChild,
    StoredDispatch,
    StoredTurn,
    TurnQuery,
    TurnRow,
)
from sidecar.core.identifiers import ChildId, DispatchId, EpisodeId, InstanceId, Slot, TurnId

TURN: Final = "select record_turn($1, $2)"
EVENTS: Final = "select record_events($1)"
ROUTING: Final = "select record_json from routing_records where turn_id = $1"
LAST_CALLED: Final = """
select called from routing_records where episode_id = $1 and called <> '{}' order by ended_at desc, turn_id desc limit 1
"""
LEFT_BEHIND: Final = """
select dispatch.turn_id, dispatch.dispatch_id
from turns turn join dispatches dispatch on dispatch.turn_id = turn.turn_id
where turn.ended_at is null
  and not record_alive(record_owner(dispatch.turn_id, dispatch.dispatch_id), $1)
  and (select count(distinct call_id) from call_outcomes outcome
    where outcome.turn_id = dispatch.turn_id and outcome.dispatch_id = dispatch.dispatch_id) <> dispatch.calls
order by dispatch.opened_at, dispatch.turn_id, dispatch.position limit $2
"""
OVERDUE: Final = """
select turn_id from turns where ended_at is null and expires_at < $1 order by expires_at, turn_id limit $2
"""
TURNS: Final = """
select coalesce(json_agg(record_turn_row(turn) order by began_at desc, turn_id desc), '[]')
from (
  select * from turns
  where began_at is not null
    and ($1::text is null or episode_id = $1)
    and ($2::text is null or exists (
      select from sub_agents child where child.turn_id = turns.turn_id and child.slot = $2))
    and ($3::text is null or $3 = case when ended_at is null then 'open'
      when close_reason = 'parent_lost' then 'lost' else 'ended' end)
    and ($4::timestamptz is null or (began_at, turn_id) < ($4, $5::text))
  order by began_at desc, turn_id desc limit $6
) turn
"""
EPISODES: Final = """
select coalesce(json_agg(json_build_object(
    'episode_id', episode_id, 'principal', principal, 'turns', turns, 'first_at', first_at, 'last_at', last_at,
    'slots', (
      select coalesce(json_agg(slot order by first_used), '[]') from (
        select child.slot, min(array[to_char(turn.began_at, 'YYYYMMDDHH24MISSUS'), turn.turn_id,
          to_char(child.step_idx, 'FM0000000000')]) as first_used
        from turns turn join sub_agents child on child.turn_id = turn.turn_id
        where turn.episode_id = episode.episode_id and turn.principal = episode.principal
        group by child.slot) used)
  ) order by last_at desc, episode_id), '[]')
from (
  select episode_id, principal, count(*) as turns, min(began_at) as first_at, max(began_at) as last_at
  from turns where began_at is not null group by episode_id, principal
  order by max(began_at) desc, episode_id limit $1
) episode
"""
ATTEMPTS: Final = """
select coalesce(json_agg(attempt order by child_id, number), '[]') from attempts attempt where turn_id = $1
"""


class DispatchRow(msgspec.Struct, frozen=True):
    """One dispatch as `record_turn` gives it; each outcome is a text of its own."""

    opened: DispatchOpened
    owner: InstanceId
    epoch: int
    owner_alive: bool
    outcomes: tuple[str, ...]


class TurnFound(msgspec.Struct, frozen=True):
    """A turn as `record_turn` gives it."""

    dispatches: tuple[DispatchRow, ...]
    children: tuple[StoredChild, ...]
    ended: TurnEnded | None
    routing: str | None


OUTCOME: Final = JsonDecoder(CallOutcome)
ROUTING_RECORD: Final = JsonDecoder(RoutingRecord)
FOUND: Final = JsonDecoder(TurnFound)
CHILD_EVENTS: Final = JsonDecoder(tuple[ChildEvent, ...])
TURN_ROWS: Final = JsonDecoder(tuple[TurnRow, ...])
EPISODE_ROWS: Final = JsonDecoder(tuple[EpisodeRow, ...])
ATTEMPTS_RECORDED: Final = JsonDecoder(tuple[AttemptRecorded, ...])


def stored_turn(turn_id: TurnId, text: str) -> StoredTurn:
    """Return a turn from what `record_turn` gave."""
    found = decoded(FOUND, text)
    dispatches = tuple(
        StoredDispatch(
            row.opened, row.owner, row.epoch, row.owner_alive, tuple(OUTCOME.decode(each) for each in row.outcomes)
        )
        for row in found.dispatches
    )
    routing = None if found.routing is None else ROUTING_RECORD.decode(found.routing)
    return StoredTurn(turn_id, dispatches, found.children, found.ended, routing)


class RunningReads:
    """The reads of `RecordReads`. Attributes are of whoever inherits."""

    _asking: Asking
    _instance: InstanceId

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return all of a turn."""
        text = await self._asking.value(TURN, turn_id, self._instance)
        return None if text is None else stored_turn(turn_id, text)

    async def child_events(self, child_id: ChildId) -> Sequence[ChildEvent]:
        """Return the events of one child."""
        return await self._asking.decoded(CHILD_EVENTS, EVENTS, child_id)

    async def routing_record(self, turn_id: TurnId) -> RoutingRecord | None:
        """Return the routing decision of a turn."""
        text = await self._asking.value(ROUTING, turn_id)
        return None if text is None else decoded(ROUTING_RECORD, text)

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots of the episode's last ended turn that called any."""
        return tuple(await self._asking.value(LAST_CALLED, episode_id) or ())

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches that nobody goes on with."""
        rows = await self._asking.rows(LEFT_BEHIND, self._instance, limit)
        return [(row["turn_id"], row["dispatch_id"]) for row in rows]

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns whose parent is lost."""
        return [row["turn_id"] for row in await self._asking.rows(OVERDUE, now, limit)]

    async def turns(self, query: TurnQuery) -> Sequence[TurnRow]:
        """Return a list of turns."""
        began, turn_id = query.before or (None, None)
        wanted = (query.episode_id, query.slot, query.state, began, turn_id, query.limit)
        return await self._asking.decoded(TURN_ROWS, TURNS, *wanted)

    async def episodes(self, limit: int) -> Sequence[EpisodeRow]:
        """Return the episodes used last."""
        return await self._asking.decoded(EPISODE_ROWS, EPISODES, limit)

    async def attempts(self, turn_id: TurnId) -> Sequence[AttemptRecorded]:
        """Return what the runners sent in a turn."""
        return await self._asking.decoded(ATTEMPTS_RECORDED, ATTEMPTS, turn_id)
