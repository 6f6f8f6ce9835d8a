"""What is asked of the journal. Facts are read by the day of their turn, so that only one partition is looked at."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import groupby
from typing import Any, Final

import asyncpg
import msgspec

from sidecar.adapters.postgresql import Asking, Connection, ConnectionLost, Connections, unavailable
from sidecar.adapters.postgresql.failures import AGAIN
from sidecar.core.decoding import from_json
from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.identifiers import AttemptId, DispatchId, EpisodeId, InstanceId, TurnId
from sidecar.core.journal.appends import RootState, TurnFacts
from sidecar.core.journal.attempt_frames import AttemptFrames
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.markers import FactsRemoved
from sidecar.core.listing.changes import ChangedTurn, Changes, Reached, Watermarks
from sidecar.operations.record.ports import NotThisJournal

DAY: Final = "select day from turn_heads where turn_id = $1"
FACT: Final = "turn_id, instance_id, at, body, texts, salt, texts_digest, link"
FACTS: Final = f"""
select {FACT}, lease_until >= now() as living from facts left join instances using (instance_id)
where day = $1 and turn_id = any ($2) order by turn_id, version
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
order by begun_at, turn_id, place limit $2
"""
OVERDUE: Final = """
select turn_id from turn_heads where ended_at is null and expires_at < $1
order by expires_at, turn_id limit $2
"""
OPEN: Final = """
select turn_id from turn_heads where ended_at is null and ($1::text is null
  or (begun_at, turn_id) < (select begun_at, turn_id from turn_heads other where other.turn_id = $1))
order by begun_at desc, turn_id desc limit $2
"""
HEADS: Final = """
select instance_id, head.number, link, coalesce(mark.number, 0) as after,
  case when head.number > coalesce(mark.number, 0) then
    (select array_agg(day) from roots where roots.instance_id = head.instance_id and newest > coalesce(mark.number, 0))
  end as days, (select count(*) from markers) as alterations
from instance_heads head left join unnest($1::text[], $2::bigint[]) mark (instance_id, number) using (instance_id)
where head.number > 0 order by instance_id
"""
NEXT: Final = """
select fact.* from unnest($2::text[], $3::bigint[], $4::bigint[]) mark (instance_id, after, up_to) cross join lateral (
  select day, turn_id, instance_id, number, at, link from facts
  where day = any ($1) and instance_id = mark.instance_id and number > after and number <= up_to
  order by number limit $5
) fact order by number, instance_id limit $5
"""
ERASED: Final = "select distinct turn_id from facts where texts is null"
ROOTS: Final = "select instance_id, day, number, encode(root, 'hex') from roots order by instance_id, day"
REMOVABLE: Final = """
select instance_id, day, number, encode(root, 'hex') from roots where journal_is_over(day, $1) order by instance_id, day
"""
UNDER: Final = f"""
select number, {FACT} from facts where day = $1 and instance_id = $2 and number > $3 order by number limit $4
"""  # noqa: S608 - names only
TURN_IDS: Final = "select turn_id from turn_heads where turn_id > $1 order by turn_id limit $2"
MARKERS: Final = "select body from markers order by instance_id, day"
REMOVE: Final = "select journal_remove($1::text::json)"
REMOVE_FRAMES: Final = "select journal_remove_frames($1)"
NO_LIMIT: Final = "select set_config('statement_timeout', $1, true)"
MARKS_DO_NOT_FIT: Final = "SR409"
LOCKED: Final = "55P03"
MOST_SEQUENCES: Final = 100
"""Instances whose next facts are read at once."""
PAGE: Final = 500
"""Rows read at once of what may be many."""
SECONDS_TO_REMOVE: Final = 60.0
TRIES: Final = 5
"""To remove: it gives up quickly where others would have to wait for it."""


class PostgresReads:
    """The methods of `JournalReads` and `RecordArchive`. Attributes are of the class that inherits.

    What may be many rows is read in pages: rows are only added, so that pages fit together; what retention removes
    meanwhile is missing from the pages that come after.
    """

    _asking: Asking
    _readers: Connections
    _instance: InstanceId

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn."""
        rows = await self._of_day(FACTS, turn_id, [turn_id])
        living = {InstanceId(row["instance_id"]) for row in rows if row["living"]}
        return TurnFacts(tuple(map(_fact, rows)), frozenset(living | {self._instance}))

    async def frames(self, turn_id: TurnId) -> Sequence[AttemptFrames]:
        """Return what the runners sent in a turn."""
        rows = await self._of_day(FRAMES, turn_id, turn_id)
        return [AttemptFrames(turn_id, AttemptId(attempt), *rest) for attempt, *rest in rows]

    async def last_called(self, episode_id: EpisodeId) -> TurnId | None:
        """Return the episode's last turn that called any."""
        turn_id: TurnId | None = await self._asking.value(LAST_CALLED, episode_id)
        return turn_id

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches whose owner's lease is over."""
        rows = await self._asking.rows(LEFT_BEHIND, self._instance, limit)
        return [(TurnId(turn_id), DispatchId(dispatch_id)) for turn_id, dispatch_id in rows]

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns whose parent is lost."""
        return [TurnId(turn_id) for (turn_id,) in await self._asking.rows(OVERDUE, now, limit)]

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended."""
        return [TurnId(turn_id) for (turn_id,) in await self._asking.rows(OPEN, before, limit)]

    async def changed(self, after: Watermarks, limit: int) -> Changes:
        """Return the turns that have some of the next facts; all of their facts. Each instance is a sequence.

        It is read first how far each sequence goes, and which days its next facts are of: only these partitions are
        looked at, and no fact beyond.
        """
        marks = {instance: mark.number for instance, mark in after.reached.items()}
        rows = await self._asking.rows(HEADS, list(marks), list(marks.values()))
        heads = {row["instance_id"]: Reached(row["number"], row["link"]) for row in rows}
        _check(after, heads)
        news = [row for row in rows if row["days"]][:MOST_SEQUENCES]
        reached, turns, at = dict(after.reached), dict[date, dict[str, None]](), after.at
        page = await self._page(news, limit) if news else []
        for row in page:
            reached[row["instance_id"]] = Reached(row["number"], row["link"])
            turns.setdefault(row["day"], {})[row["turn_id"]] = None
            at = row["at"] if at is None else max(at, row["at"])
        # To the end of their sequences, though the newest facts of some may have been removed.
        over = [row["instance_id"] for row in rows if not row["days"] or (row in news and len(page) < limit)]
        reached |= {instance: heads[instance] for instance in over}
        alterations = max((row["alterations"] for row in rows), default=0)
        behind = sum(head.number for head in heads.values()) - sum(mark.number for mark in reached.values())
        return Changes(tuple([each async for each in self._turns(turns)]), Watermarks(reached, alterations, at), behind)

    async def _page(self, news: Sequence[Any], limit: int) -> list[Any]:
        days = sorted({day for row in news for day in row["days"]})
        columns = ([row[name] for row in news] for name in ("instance_id", "after", "number"))
        return await self._asking.rows(NEXT, days, *columns, limit)

    async def _turns(self, turns: Mapping[date, Iterable[str]]) -> AsyncIterator[ChangedTurn]:
        for day, turn_ids in turns.items():
            rows = await self._asking.rows(FACTS, day, list(turn_ids))
            for turn_id, facts in groupby(rows, lambda row: row["turn_id"]):
                yield ChangedTurn(TurnId(turn_id), 1, tuple(map(_fact, facts)))

    async def erased_turns(self) -> Sequence[TurnId]:
        """Return the turns that have facts without texts."""
        return [TurnId(turn_id) for (turn_id,) in await self._asking.rows(ERASED)]

    # --- archive

    async def roots(self) -> Sequence[RootState]:
        """Return where the running roots stand."""
        return [RootState(*row) for row in await self._asking.rows(ROOTS)]

    async def facts_under(self, instance: InstanceId, day: date) -> AsyncIterator[Stored]:
        """Go through the facts that a running root covers."""
        number = 0
        while page := await self._asking.rows(UNDER, day, instance, number, PAGE):
            for row in page:
                yield _fact(row)
            number = page[-1]["number"]

    async def turn_ids(self) -> AsyncIterator[TurnId]:
        """Go through all turns."""
        turn_id = TurnId("")
        while page := await self._asking.rows(TURN_IDS, turn_id, PAGE):
            for (each,) in page:
                turn_id = TurnId(each)
                yield turn_id

    async def markers(self) -> Sequence[FactsRemoved]:
        """Return every marker."""
        return [from_json(body, FactsRemoved) for (body,) in await self._asking.rows(MARKERS)]

    async def removable(self, ended_before: datetime) -> Sequence[RootState]:
        """Return the roots of days that are old enough."""
        return [RootState(*row) for row in await self._asking.rows(REMOVABLE, ended_before)]

    async def remove(self, markers: Sequence[FactsRemoved]) -> int:
        """Keep the markers, and remove the days that they name: their partitions go."""
        return await self._slowly(REMOVE, msgspec.json.encode(markers).decode())

    async def remove_frames(self, ended_before: datetime) -> int:
        """Remove what runners sent."""
        return await self._slowly(REMOVE_FRAMES, ended_before)

    async def _of_day(self, sql: str, turn_id: TurnId, value: Any) -> list[Any]:
        """Return the rows of a statement about a turn, which takes the day of the turn and `value`."""
        day = await self._asking.value(DAY, turn_id)
        return [] if day is None else await self._asking.rows(sql, day, value)

    async def _slowly(self, sql: str, value: Any) -> int:
        """Run one statement that may take long, and says how many rows are gone."""

        async def run(connection: Connection) -> int:
            async with connection.transaction():
                await connection.execute(NO_LIMIT, str(round(SECONDS_TO_REMOVE * 1000)))
                gone: int = await connection.fetchval(sql, value)
                return gone

        for tries in range(1, TRIES + 1):
            try:
                return await self._readers.run(run, SECONDS_TO_REMOVE)
            except ConnectionLost:
                break
            except asyncpg.PostgresError as error:
                if error.sqlstate == MARKS_DO_NOT_FIT:
                    raise RecordConflict("the markers do not fit the running roots", metadata={}) from None
                if error.sqlstate != LOCKED or tries == TRIES:
                    raise unavailable(error, "remove what is old") from None
        raise StoreUnavailable("PostgreSQL does not answer", retry_after=AGAIN)


def _fact(row: Any) -> Stored:
    return Stored(*(row[name] for name in FACT.split(", ")))


def _check(marks: Watermarks, heads: Mapping[str, Reached]) -> None:
    """Raises `NotThisJournal`. An id of an instance is never used again: its facts are the same up to any number."""
    for instance, mark in marks.reached.items():
        head = heads.get(instance, Reached(0, b""))
        if head.number < mark.number or (head.number == mark.number and head.link != mark.link):
            raise NotThisJournal(f"{instance} has no fact {mark.number}, or another one")
