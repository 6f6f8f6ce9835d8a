"""Reads the PostgreSQL journal. Facts are read by the day of their turn, so that only one partition is searched."""

from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime
from typing import Any, Final

import asyncpg
import msgspec

from sidecar.adapters.postgresql import Connection, ConnectionLost, Connections, StatementExecutor, unavailable
from sidecar.adapters.postgresql.failures import AGAIN
from sidecar.adapters.record_postgresql.changes_since import ERASED, FACT, changed, fact_from
from sidecar.core.decoding import from_json
from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.identifiers import AttemptId, DispatchId, EpisodeId, InstanceId, TurnId
from sidecar.core.journal.appends import RootState, TurnFacts, TurnIndex
from sidecar.core.journal.entries import AttemptFrames, Stored
from sidecar.core.journal.markers import FactsRemoved
from sidecar.core.listing.changes import Changes, Watermarks

DAY: Final = "select day from turn_heads where turn_id = $1"
HEAD: Final = "episode_id, expires_at, ended_at, called"
FACTS: Final = f"""
select {FACT}, {HEAD}, fact.version, lease_until >= now() as living
from facts fact left join instances using (instance_id) left join turn_heads head using (turn_id)
where fact.day = $1 and turn_id = any ($2) order by turn_id, fact.version
"""  # noqa: S608 - names only
FRAMES: Final = """
select attempt_id, step, number, frames from attempt_frames where day = $1 and turn_id = $2 order by step, number
"""
LAST_CALLED: Final = """
select turn_id from turn_heads where episode_id = $1 and called order by ended_at desc, turn_id desc limit 1
"""
LEFT_BEHIND: Final = """
select turn_id, dispatch ->> 0 from turn_heads, jsonb_array_elements(unsettled) with ordinality each (dispatch, place)
where ended_at is null and dispatch ->> 1 <> $1
  and not exists (select from instances where instance_id = dispatch ->> 1 and lease_until >= now())
order by began_at, turn_id, place limit $2
"""
OVERDUE: Final = """
select turn_id from turn_heads where ended_at is null and expires_at < $1
order by expires_at, began_at, turn_id limit $2
"""
NEWEST_OPEN: Final = """
select turn_id from turn_heads where ended_at is null
  and (began_at, turn_id) <
    (coalesce((select began_at from turn_heads where turn_id = $1), 'infinity'), coalesce($1, ''))
order by began_at desc, turn_id desc limit $2
"""
"""Without a turn, or with an unknown one, the list begins at the newest turn."""
ROOTS: Final = "select instance_id, day, number, encode(root, 'hex') from roots order by instance_id, day"
REMOVABLE: Final = """
select instance_id, day, number, encode(root, 'hex') from roots where journal_is_over(day, $1) order by instance_id, day
"""
OF_DAY: Final = f"""
select number, {FACT} from facts where day = $1 and (instance_id, number) > ($2, $3)
order by instance_id, number limit $4
"""  # noqa: S608 - names only
TURN_IDS: Final = "select turn_id from turn_heads where turn_id > $1 order by turn_id limit $2"
MARKERS: Final = "select body from markers order by instance_id, day"
REMOVE: Final = "select journal_remove($1::text::json)"
REMOVE_FRAMES: Final = "select journal_remove_frames($1)"
NO_LIMIT: Final = "select set_config('statement_timeout', $1, true)"
MISFIT: Final = "SR409"
"""SQLSTATE of the functions of this database: markers, or facts to erase, do not fit what is stored."""
LOCKED: Final = "55P03"
"""SQLSTATE: another transaction holds a lock (`lock_not_available`)."""
PAGE: Final = 500
"""Rows in one read of a possibly long result."""
SECONDS_TO_REMOVE: Final = 60.0
"""Time limit of a removal, here and at the server. Dropping a partition and erasing many texts take long."""
TRIES: Final = 5
"""Attempts to remove data; each gives up quickly where other transactions would have to wait for it."""


class PostgresReads:
    """The methods of the interfaces `JournalReads` and `RecordArchive`. The subclass sets the attributes.

    Possibly long results are read in pages. Rows are only added, so the pages are consistent; rows that retention
    removes in the meantime are missing from later pages.
    """

    _statements: StatementExecutor
    _readers: Connections
    _instance: InstanceId

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn."""
        day = await self._statements.value(DAY, turn_id)
        # Two statements, but no race: the day of a turn never changes, and facts are only added. If retention removes
        # the turn in between, the result is empty.
        rows = [] if day is None else await self._statements.rows(FACTS, day, [turn_id])
        living = {InstanceId(row["instance_id"]) for row in rows if row["living"]}
        # The columns of the turn's head are the same in each row.
        versions, index = tuple(row["version"] for row in rows), _index(rows[0]) if rows else None
        return TurnFacts(tuple(map(fact_from, rows)), frozenset(living | {self._instance}), versions, day, index)

    async def frames(self, turn_id: TurnId) -> Sequence[AttemptFrames]:
        """Return the frames that runners sent in a turn."""
        rows = await self._of_day(FRAMES, turn_id, turn_id)
        return [AttemptFrames(turn_id, AttemptId(attempt), *rest) for attempt, *rest in rows]

    async def last_called(self, episode_id: EpisodeId) -> TurnId | None:
        """Return the episode's last turn with a call."""
        turn_id: TurnId | None = await self._statements.value(LAST_CALLED, episode_id)
        return turn_id

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches whose owner's lease has expired."""
        rows = await self._statements.rows(LEFT_BEHIND, self._instance, limit)
        return [(TurnId(turn_id), DispatchId(dispatch_id)) for turn_id, dispatch_id in rows]

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns whose parent is lost."""
        return [TurnId(turn_id) for (turn_id,) in await self._statements.rows(OVERDUE, now, limit)]

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended, by the time of their first fact."""
        return [TurnId(turn_id) for (turn_id,) in await self._statements.rows(NEWEST_OPEN, before, limit)]

    async def changed(self, after: Watermarks, limit: int, only: Sequence[str] | None = None) -> Changes:
        """Return the turns that have some of the next facts."""
        return await changed(self._statements, after, limit, only)

    async def erased_turns(self) -> Sequence[TurnId]:
        """Return the turns that have facts without texts."""
        return [TurnId(turn_id) for (turn_id,) in await self._statements.rows(ERASED)]

    # --- archive

    async def roots(self) -> Sequence[RootState]:
        """Return the running roots."""
        return [RootState(*row) for row in await self._statements.rows(ROOTS)]

    async def facts_of_day(self, day: date) -> AsyncIterator[Stored]:
        """Iterate over all facts of the turns of a day."""
        instance, number = "", 0
        # A page begins after a fact and not at an offset, so rows that are added or removed meanwhile shift nothing.
        while page := await self._statements.rows(OF_DAY, day, instance, number, PAGE):
            for row in page:
                yield fact_from(row)
            instance, number = page[-1]["instance_id"], page[-1]["number"]

    async def turn_ids(self) -> AsyncIterator[TurnId]:
        """Iterate over all turns."""
        turn_id = TurnId("")
        while page := await self._statements.rows(TURN_IDS, turn_id, PAGE):
            for (each,) in page:
                turn_id = TurnId(each)
                yield turn_id

    async def markers(self) -> Sequence[FactsRemoved]:
        """Return every marker."""
        return [from_json(body, FactsRemoved) for (body,) in await self._statements.rows(MARKERS)]

    async def removable(self, ended_before: datetime) -> Sequence[RootState]:
        """Return the roots of days that are old enough."""
        return [RootState(*row) for row in await self._statements.rows(REMOVABLE, ended_before)]

    async def remove(self, markers: Sequence[FactsRemoved]) -> int:
        """Store the markers, and drop the partitions of the days that they name."""
        return await self._run_long(REMOVE, msgspec.json.encode(markers).decode())

    async def remove_frames(self, ended_before: datetime) -> int:
        """Remove the runners' messages."""
        return await self._run_long(REMOVE_FRAMES, ended_before)

    async def _of_day(self, sql: str, turn_id: TurnId, value: Any) -> list[Any]:
        """Return the rows of a statement about a turn, which takes the day of the turn and `value`."""
        day = await self._statements.value(DAY, turn_id)
        return [] if day is None else await self._statements.rows(sql, day, value)

    async def _run_long(self, sql: str, value: Any) -> int:
        """Run one statement that may take long; return the number of removed rows."""

        async def run(connection: Connection) -> int:
            async with connection.transaction():
                # Transaction-local (`true`): behind a pooler, the next transaction on this connection belongs to
                # another client.
                await connection.execute(NO_LIMIT, str(round(SECONDS_TO_REMOVE * 1000)))
                removed: int = await connection.fetchval(sql, value)
                return removed

        for attempt in range(1, TRIES + 1):
            try:
                return await self._readers.run(run, SECONDS_TO_REMOVE)
            # The removal may have happened. Not repeated here: the caller reads again what is left to remove.
            except ConnectionLost:
                break
            except asyncpg.PostgresError as error:
                if error.sqlstate == MISFIT:
                    raise RecordConflict(f"PostgreSQL refuses: {error.args[0]}") from None
                # The function gives up after 200 ms instead of waiting for its locks: appends that queue behind a
                # waiting exclusive lock would wait as well.
                if error.sqlstate != LOCKED or attempt == TRIES:
                    raise unavailable(error, "remove what is old") from None
        raise StoreUnavailable("PostgreSQL does not answer", retry_after=AGAIN)


def _index(row: Any) -> TurnIndex | None:
    return None if row["episode_id"] is None else TurnIndex(*(row[name] for name in HEAD.split(", ")))
