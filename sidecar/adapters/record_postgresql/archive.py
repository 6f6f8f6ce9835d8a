"""What verifying and retention need of the record."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg
import msgspec

from sidecar.adapters.postgresql import Connection, ConnectionLost
from sidecar.adapters.postgresql.texts import stored
from sidecar.adapters.record_postgresql.asking import AGAIN, Asking, decoded, refusal
from sidecar.core.decoding import JsonDecoder
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import ClosedChild, ClosedState, RetentionMarker, StoredChild
from sidecar.core.identifiers import InstanceId

CLOSED_STATES: Final = """
select coalesce(json_agg(json_build_object('instance', instance_id, 'number', closed_number, 'root', closed_root)
  order by instance_id), '[]') from instance_heads where closed_number > 0
"""
CLOSED_CHILDREN: Final = """
select coalesce(json_agg(json_build_object('instance', instance_id, 'number', number, 'child_id', child_id,
  'last_link', last_link, 'root', root) order by number), '[]')
from (select * from closed_children where instance_id = $1 and number > $2 order by number limit $3) page
"""
CHILDREN: Final = """
select coalesce(json_agg(record_child(page) order by child_id), '[]')
from (select * from sub_agents where child_id > $1 order by child_id limit $2) page
"""
MARKERS: Final = """
select coalesce(json_agg(json_build_object('instance', instance_id, 'number', number, 'root', root,
  'closed_before', closed_before, 'made_at', made_at, 'key_id', key_id, 'signature', signature)
  order by instance_id, number), '[]') from retention_markers
"""
PURGEABLE: Final = """
select coalesce(json_agg(json_build_object('instance', last.instance_id, 'number', last.number, 'root', last.root)
  order by last.instance_id), '[]')
from instance_heads head
cross join lateral (
  select link.instance_id, link.number, link.root from closed_children link
  where link.instance_id = head.instance_id and link.number < coalesce((
    select min(young.number) from closed_children young join sub_agents child on child.child_id = young.child_id
    left join turn_ends ended on ended.turn_id = child.turn_id
    where young.instance_id = head.instance_id and (
      ended.ended_at is null or ended.ended_at >= $1 or exists (
        select from sub_agents sibling join sub_agent_events event on event.child_id = sibling.child_id
        where sibling.turn_id = child.turn_id and event.name = 'agent.subagent_closed' and event.time >= $1))
  ), head.closed_number + 1)
  order by link.number desc limit 1
) last
"""


PURGE: Final = "select record_purge($1::text::json)"
PURGE_CHILDLESS: Final = "select record_purge_childless($1)"
PURGE_FRAMES: Final = "select record_purge_frames($1)"
NO_LIMIT: Final = "select set_config('statement_timeout', $1, true)"
PAGE: Final = 200
"""Rows read at once of what may be many."""
SECONDS_TO_PURGE: Final = 60.0

STATES: Final = JsonDecoder(tuple[ClosedState, ...])
LINKS: Final = JsonDecoder(tuple[ClosedChild, ...])
STORED_CHILDREN: Final = JsonDecoder(tuple[StoredChild, ...])
RETENTION_MARKERS: Final = JsonDecoder(tuple[RetentionMarker, ...])


class MarkerRow(msgspec.Struct, frozen=True):
    """A marker with the names of its columns."""

    instance_id: InstanceId
    number: int
    root: str
    closed_before: datetime
    made_at: datetime
    key_id: str
    signature: str


class ArchiveReads:
    """The methods of `RecordArchive`. Attributes are of whoever inherits.

    What may be many rows is read in pages. Rows are only added, and a child is read with its events in one statement,
    so that pages fit together; what retention removes meanwhile is missing from the pages that come after.
    """

    _asking: Asking

    async def closed_states(self) -> Sequence[ClosedState]:
        """Return where the running roots stand."""
        return await self._asking.decoded(STATES, CLOSED_STATES)

    async def closed_children(self, instance: InstanceId) -> AsyncIterator[ClosedChild]:
        """Go through the links of a running root."""
        number = 0
        while page := await self._asking.decoded(LINKS, CLOSED_CHILDREN, instance, number, PAGE):
            for link in page:
                yield link
            number = page[-1].number

    async def children(self) -> AsyncIterator[StoredChild]:
        """Go through all children."""
        child_id = ""
        while page := await self._asking.decoded(STORED_CHILDREN, CHILDREN, child_id, PAGE):
            for child in page:
                yield child
            child_id = page[-1].opened.child_id

    async def markers(self) -> Sequence[RetentionMarker]:
        """Return every marker."""
        return await self._asking.decoded(RETENTION_MARKERS, MARKERS)

    async def purgeable(self, closed_before: datetime) -> Sequence[ClosedState]:
        """Return up to where everything is old enough."""
        return decoded(STATES, await self._slowly(PURGEABLE, closed_before))

    async def purge(self, markers: Sequence[RetentionMarker]) -> int:
        """Keep the markers, and remove what they cover; the same markers again change nothing."""
        rows = [MarkerRow(*msgspec.structs.astuple(marker)) for marker in markers]
        removed: int = await self._slowly(PURGE, stored(msgspec.json.encode(rows).decode()))
        return removed

    async def purge_childless(self, before: datetime) -> int:
        """Remove some of the turns without children."""
        removed: int = await self._slowly(PURGE_CHILDLESS, before)
        return removed

    async def purge_frames(self, before: datetime) -> int:
        """Remove what runners sent."""
        removed: int = await self._slowly(PURGE_FRAMES, before)
        return removed

    async def _slowly(self, sql: str, value: Any) -> Any:
        """Run one statement that may take long."""

        async def run(connection: Connection) -> Any:
            async with connection.transaction():
                await connection.execute(NO_LIMIT, str(round(SECONDS_TO_PURGE * 1000)))
                return await connection.fetchval(sql, value)

        try:
            return await self._asking.connections.run(run, SECONDS_TO_PURGE)
        except ConnectionLost:
            raise StoreUnavailable("PostgreSQL does not answer", retry_after=AGAIN) from None
        except asyncpg.PostgresError as error:
            raise refusal(error, "remove what is old") from None
