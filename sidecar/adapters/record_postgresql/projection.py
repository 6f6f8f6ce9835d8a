"""The rows from which lists of turns are read, in the PostgreSQL database of the journal.

Each sidecar derives rows ("projects") from its own facts, and from those of dead sidecars.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from sidecar.adapters.postgresql import Connection, Connections, ConnectionTimeouts, StatementExecutor
from sidecar.adapters.postgresql.failures import AGAIN
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, TurnQuery, TurnRow
from sidecar.core.identifiers import EpisodeId, InstanceId, Principal, TurnId
from sidecar.core.listing.changes import ReadPosition, Watermarks
from sidecar.core.listing.row_columns import COLUMNS, columns_of, row_from, slots_from
from sidecar.core.listing.turn_rows import EpisodeActivity, Newer, TurnLine, episode_rows, labels_asked, listed, use_of
from sidecar.operations.record.ports import CommitUnknown

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
MARKS: Final = """
select instance_id, number, link from lists_watermarks mark where number > 0
  and not exists (select from lists_settled settled where settled.instance_id = mark.instance_id)
"""
"""Watermarks without those of settled instances, which have no further facts to read."""
TAKEN: Final = "select generation, alterations from lists_taken"
"""How often all rows were removed, and how many removals and erasures in the journal are applied to the rows."""
LEASE: Final = "select lists_lease($1, $2)"
LEASED_FOR: Final = timedelta(seconds=30)
ASKED_AGAIN: Final = 10.0
"""Seconds after which the lease is renewed; it then includes instances whose facts are projected by no sidecar."""
KEEP: Final = f"select lists_keep({', '.join(f'${number}' for number in range(1, 25))})"
"""Writes rows and watermarks, if lease, generation and watermarks are still those of this sidecar; returns whether."""
CLEAR: Final = "select lists_clear()"
NEWEST_EPISODES: Final = """
select episode_id, principal from listed_episodes where (last_at, episode_id, principal) < ($2, $3, $4)
  order by last_at desc, episode_id desc, principal desc limit $1
"""
HAS_LABEL: Final = """
exists (select from listed_labels other
  where other.label = {} and other.began_at = listed_turns.began_at and other.turn_id = listed_turns.turn_id)
"""
VERSIONS: Final = "select turn_id, version from listed_turns where turn_id = any ($1)"
USES: Final = """
select episode_id, principal, min(began_at), (array_agg(turn_id order by began_at, turn_id))[1],
    max(began_at), count(*), slots
  from unnest($1::text[], $2::text[]) wanted (episode_id, principal) join listed_turns using (episode_id, principal)
  where shown and turn_id <> all ($3) group by episode_id, principal, slots
"""


class PostgresProjection:
    """Implements the interface `Projection` over one connection.

    Args:
        dsn: the address of the journal's database, a URL. The schema exists.
        instance: the projecting instance.
    """

    def __init__(self, dsn: str, instance: InstanceId, limits: ConnectionTimeouts) -> None:
        """Begin without a connection."""
        self._instance = instance
        self._connections = Connections(dsn, 1, limits)
        self._statements = StatementExecutor(
            writer=self._connections, readers=self._connections, writing="keep rows of lists"
        )
        self._leased: tuple[str, ...] = ()
        """The instances of the last lease."""
        self._renew_at = 0.0
        """Time of `monotonic` from which the lease is renewed."""

    async def mine(self) -> Sequence[str]:
        """Return the instances whose facts this sidecar may project now."""
        # A third of the lease, so that two failed renewals do not lose it.
        if time.monotonic() >= self._renew_at:
            self._renew_at = time.monotonic() + ASKED_AGAIN

            async def lease(connection: Connection) -> list[Any]:
                return await connection.fetch(LEASE, self._instance, LEASED_FOR)

            self._leased = tuple(sorted(row[0] for row in await self._write(lease)))
        return self._leased

    async def watermarks(self) -> Watermarks:
        """Return the position up to which the journal was projected.

        If `clear` runs before `apply` gets these watermarks, `apply` raises `StoreUnavailable` and stores nothing.
        """
        # Before the watermarks: if everything is removed between the two reads, the generation is outdated, and `apply`
        # is refused. The reverse order would combine old watermarks with the new generation.
        ((generation, alterations),) = await self._statements.rows(TAKEN)
        marks = {instance: ReadPosition(number, link) for instance, number, link in await self._statements.rows(MARKS)}
        return Watermarks(marks, alterations, generation)

    async def apply(
        self, lines: Sequence[TurnLine], reached: Watermarks, days: Sequence[date] = (), gone: Sequence[TurnId] = ()
    ) -> None:
        """Remove the turns of `days` and those in `gone`; store `lines` and the watermarks of leased instances."""
        # Only leased instances are written. Watermarks of others may have moved since they were read, and an older one
        # must not replace them.
        positions = reached.reached
        marks = [(name, mark.number, mark.link) for name, mark in positions.items() if name in self._leased]
        # The 24 arguments of `KEEP`. Database functions take rows as one array for each column.
        values = (
            *(self._instance, reached.generation, reached.alterations),
            *(_columns(marks, 3)),
            *(list(days), list(gone)),
            *_columns([_values(line) for line in sorted(lines, key=lambda line: line.turn_id)], 16),
        )

        async def keep(connection: Connection) -> bool:
            stored: bool = await connection.fetchval(KEEP, *values)
            return stored

        # The function in the database checks lease, generation and watermarks in the transaction that writes. A check
        # before it could be outdated when the rows are written.
        if not await self._write(keep):
            self._renew_at = 0.0  # the lease may be lost: the next pass asks for it at once
            raise StoreUnavailable("another sidecar keeps these rows of lists now", retry_after=AGAIN)

    async def clear(self) -> None:
        """Remove everything."""

        async def clear(connection: Connection) -> None:
            await connection.execute(CLEAR)

        await self._write(clear)

    async def versions(self, turn_ids: Sequence[TurnId]) -> Mapping[TurnId, int]:
        """Return, for each turn that has a row, the number of facts that its row was derived from."""
        return {TurnId(turn_id): version for turn_id, version in await self._statements.rows(VERSIONS, list(turn_ids))}

    async def turns(self, query: TurnQuery, newer: Newer) -> Sequence[TurnRow]:
        """Return a list of turns."""
        conditions, values = ["shown"], list[Any]()

        def add(condition: str, *given: Any) -> None:
            values.extend(given)
            places = range(len(values) - len(given) + 1, len(values) + 1)
            conditions.append(condition.format(*(f"${place}" for place in places)))

        if query.episode_id is not None:
            add("episode_id = {}", query.episode_id)
        if query.state is not None:
            add("state = {}", query.state.value)
        if query.principal is not None:
            add("principal = {}", query.principal)
        labels = labels_asked(query)
        for label in labels[:1]:
            add("label = {}", label)
        for label in labels[1:]:
            add(HAS_LABEL, label)
        if query.since is not None:
            add("began_at >= {}", query.since)
        if query.until is not None:
            add("began_at < {}", query.until)
        if query.before is not None:
            add("(began_at, turn_id) < ({}, {})", *query.before)
        source = "listed_labels join listed_turns using (turn_id, began_at)" if labels else "listed_turns"
        sql = (
            f"select {COLUMNS} from {source} where {' and '.join(conditions)}"  # noqa: S608 - names and places only
            # Each row of `newer` can make `listed` replace or drop one stored row, so as many more rows are read.
            f" order by began_at desc, turn_id desc limit {query.limit + len(newer)}"
        )
        rows = [row_from(tuple(row), _as_it_is) for row in await self._statements.rows(sql, *values)]
        return listed(rows, newer, query)

    async def episodes(self, limit: int, newer: Newer, before: EpisodeMark | None = None) -> Sequence[EpisodeRow]:
        """Return the episodes used last."""
        uses = [use_of(row) for row in newer.values() if row is not None]
        # First the episodes of turns that are not projected yet: the stored last use of these episodes may be old.
        candidates = dict.fromkeys((use.episode_id, use.principal) for use in uses)
        place = before or (LATEST, "", "")
        candidates |= dict.fromkeys(
            map(tuple, await self._statements.rows(NEWEST_EPISODES, limit + len(newer), *place))
        )
        ids, principals = [each[0] for each in candidates], [each[1] for each in candidates]
        uses += [_use(tuple(row)) for row in await self._statements.rows(USES, ids, principals, list(newer))]
        return episode_rows(uses, limit, before)

    async def close(self) -> None:
        """Release the connection."""
        self._connections.close()

    async def _write(self, work: Any) -> Any:
        try:
            return await self._statements.commit(work)
        except CommitUnknown:  # rows and watermarks are both stored or both not: the next pass reads the watermarks
            raise StoreUnavailable("PostgreSQL does not confirm the rows of lists", retry_after=AGAIN) from None


def _values(line: TurnLine) -> tuple[Any, ...]:
    turn_id, *rest = columns_of(line.turn_id, line.row, _as_it_is, EPOCH)
    return (turn_id, line.version, line.day, line.row is not None, *rest)


def _as_it_is(time: datetime) -> datetime:
    # PostgreSQL stores times; other databases need a conversion here.
    return time


def _columns(rows: Sequence[tuple[Any, ...]], columns: int) -> list[list[Any]]:
    """Return rows as columns; without rows, empty columns."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(columns)]


def _use(values: tuple[Any, ...]) -> EpisodeActivity:
    episode_id, principal, first_at, first_turn, last_at, turns, slots = values
    first = first_at, TurnId(first_turn)
    return EpisodeActivity(EpisodeId(episode_id), Principal(principal), first, last_at, turns, slots_from(slots))
