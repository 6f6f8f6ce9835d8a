"""Reads the SQLite journal for verification, and removes facts for retention and erasures."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Final, TypeVar

import apsw
import msgspec

from sidecar.adapters.record_sqlite.rows import (
    FACT_COLUMNS,
    WITH_FRAMES,
    day_of,
    fact_from,
    first,
    microseconds,
    rows_of,
    time_of,
)
from sidecar.core.decoding import from_json
from sidecar.core.errors import RecordConflict
from sidecar.core.identifiers import EpisodeId, InstanceId, TurnId
from sidecar.core.journal.appends import RootState, TurnFacts, TurnIndex
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.markers import Erasure, FactsRemoved, TextsErased

Result = TypeVar("Result")

ROOTS: Final = """
SELECT i.instance, r.day, r.number, r.root FROM roots r JOIN instances i ON i.number = r.instance
  ORDER BY i.instance, r.day
"""
BOUNDS: Final = """
SELECT coalesce(min(f.number), 1), coalesce(max(f.number), 0) FROM turns t JOIN facts f ON f.turn = t.number
  WHERE t.day = ?
"""
OF_DAY: Final = f"""
SELECT f.number, t.turn_id, {FACT_COLUMNS} FROM facts f
  CROSS JOIN turns t ON t.number = f.turn JOIN instances i ON i.number = f.instance
  WHERE f.number > ? AND f.number <= ? AND t.day = ? ORDER BY f.number LIMIT ?
"""  # noqa: S608 - names only
"""Walks the facts of a range of numbers, most of which belong to the day.

`CROSS JOIN` forces this join order. With the turns first, SQLite would have to sort all facts of the day for each page.
"""
FACTS_AS_STORED: Final = f"""
SELECT f.version, {FACT_COLUMNS} FROM turns t JOIN facts f ON f.turn = t.number
  JOIN instances i ON i.number = f.instance WHERE t.turn_id = ? ORDER BY f.version
"""  # noqa: S608 - names only
INDEX: Final = "SELECT day, episode_id, expires_at, ended_at, called FROM turns WHERE turn_id = ?"
YOUNG: Final = "SELECT EXISTS (SELECT 1 FROM turns WHERE day = ? AND (ended_at IS NULL OR ended_at >= ?))"
"""Whether a turn of a day is still open, or ended at or after a time."""
TURN_OF_DAY: Final = "turn IN (SELECT number FROM turns WHERE day = ?)"
REACHED: Final = """
UPDATE instances SET reached = max(reached, (SELECT coalesce(max(number), 0) FROM facts))
  WHERE number = (SELECT max(number) FROM instances)
"""
"""Stores the highest number of a fact before facts are removed. Otherwise a new fact could get the number of a removed
one."""
FRAMES_WHERE: Final = f"DELETE FROM attempt_frames WHERE place IN (SELECT a.place FROM {WITH_FRAMES} WHERE "  # noqa: S608 - names only
OLD_FRAMES: Final = f"{FRAMES_WHERE} t.ended_at < ?)"
FRAMES_GONE: Final = f"{FRAMES_WHERE} t.day = ?)"
SAYING: Final = """
SELECT DISTINCT t.turn_id FROM facts f CROSS JOIN turns t ON t.number = f.turn
  WHERE f.number > ? AND f.number <= ? AND instr(f.texts, ?) > 0
"""
"""The turns with a fact, in a range of numbers, whose texts contain some bytes."""
ERASED: Final = """
UPDATE facts SET texts = NULL, salt = NULL, texts_digest = ?, erased_under = ?
  WHERE turn = (SELECT number FROM turns WHERE turn_id = ?) AND version = ? AND link = ? AND texts IS NOT NULL
"""
"""Removes the texts of one fact; changes no row if the fact is not the given one, or has no texts."""
FRAMES_OF: Final = f"{FRAMES_WHERE} t.turn_id = ?)"
PAGE: Final = 500
"""Maximum number of facts or turns of one page."""
SEARCHED: Final = 2000
"""Number of facts whose texts one read searches. During a longer read, all other reads would wait."""


def roots(connection: apsw.Connection) -> Sequence[RootState]:
    """Return the running root of each instance and day."""
    rows = rows_of(connection, ROOTS)
    return [RootState(InstanceId(instance), day_of(day), number, root.hex()) for instance, day, number, root in rows]


def bounds_of(connection: apsw.Connection, day: date) -> tuple[int, int]:
    """Return the numbers of the first and the last fact in turns of a day."""
    # A day without facts gives an empty range, from 1 to 0.
    lowest, highest = rows_of(connection, BOUNDS, (day.isoformat(),))[0]
    return lowest, highest


def page_of_day(connection: apsw.Connection, day: date, after: int, up_to: int) -> Sequence[tuple[int, Stored]]:
    """Return the next facts of the turns of a day, each with its number, which is above `after` and up to `up_to`."""
    rows = rows_of(connection, OF_DAY, (after, up_to, day.isoformat(), PAGE))
    return [(number, fact_from(TurnId(turn_id), tuple(row))) for number, turn_id, *row in rows]


def turn_as_stored(connection: apsw.Connection, turn_id: TurnId) -> TurnFacts:
    """Return everything that is stored of a turn, including derived values, which the verification compares."""
    rows = rows_of(connection, FACTS_AS_STORED, (turn_id,))
    facts = tuple(fact_from(turn_id, tuple(row)) for _, *row in rows)
    index = first(rows_of(connection, INDEX, (turn_id,)))
    day = None if index is None else day_of(index[0])
    versions = tuple(version for version, *_ in rows)
    return TurnFacts(facts, frozenset(), versions, day, None if index is None else _index_from(*index[1:]))


def _index_from(episode_id: str, expires_at: int, ended_at: int | None, called: int) -> TurnIndex:
    ended = None if ended_at is None else time_of(ended_at)
    return TurnIndex(EpisodeId(episode_id), time_of(expires_at), ended, bool(called))


def turn_page(connection: apsw.Connection, after: int) -> Sequence[tuple[int, TurnId]]:
    """Return the next turns, each with its number."""
    rows = rows_of(
        connection, "SELECT number, turn_id FROM turns WHERE number > ? ORDER BY number LIMIT ?", (after, PAGE)
    )
    return [(number, TurnId(turn_id)) for number, turn_id in rows]


def stored_markers(connection: apsw.Connection) -> Sequence[FactsRemoved]:
    """Return the marker of each day whose facts were removed."""
    rows = rows_of(connection, "SELECT body FROM markers ORDER BY instance, day")
    return [from_json(body, FactsRemoved) for (body,) in rows]


def removable(connection: apsw.Connection, ended_before: datetime) -> Sequence[RootState]:
    """Return the roots of the days on which every turn ended before `ended_before`."""
    until, last_day = microseconds(ended_before), ended_before.astimezone(UTC).date()
    # A turn belongs to the day on which it began, and ends on this day or later. Later days need not be considered.
    # Every day with facts has a running root, so the many facts need not be read.
    old = [each for each in roots(connection) if each.day <= last_day]
    days = {each.day for each in old}
    young = {day for day in days if first(rows_of(connection, YOUNG, (day.isoformat(), until))) == (1,)}
    return [each for each in old if each.day not in young]


def remove(connection: apsw.Connection, markers: Sequence[FactsRemoved]) -> int:
    """Store the markers, remove the facts of their days, and return the number of removed turns.

    Raises:
        RecordConflict: the running roots of these days are not those in the markers.
    """
    days = {marker.partition for marker in markers}
    signed = {(each.instance, each.partition): (each.number, each.root) for each in markers}
    stored = {(each.instance, each.day): (each.number, each.root) for each in roots(connection) if each.day in days}
    # Compared in the transaction that removes the facts. Otherwise facts that were appended since the markers were
    # signed would be removed without a signature that covers them.
    if signed != stored:
        raise RecordConflict("the markers do not fit the running roots", metadata={"days": str(len(days))})
    # Triggers refuse each DELETE and UPDATE of facts unless this table has a row. The row is removed before the commit,
    # so that no other transaction can change facts.
    connection.execute("INSERT INTO purging VALUES ('retention')")
    for marker in markers:
        row = (marker.instance, marker.partition.isoformat(), msgspec.json.encode(marker).decode())
        connection.execute("INSERT INTO markers VALUES (?,?,?)", row)
    removed = 0
    # Before the facts are deleted, because the statement reads their highest number.
    connection.execute(REACHED)
    for day in sorted(days):
        of_day = (day.isoformat(),)
        # This order: frames are found through the facts of their turn, and facts have a foreign key to turns.
        connection.execute(FRAMES_GONE, of_day)
        connection.execute(f"DELETE FROM facts WHERE {TURN_OF_DAY}", of_day)  # noqa: S608 - names only
        connection.execute("DELETE FROM turns WHERE day = ?", of_day)
        removed += connection.changes()
        connection.execute("DELETE FROM roots WHERE day = ?", of_day)
    connection.execute("DELETE FROM purging")
    return removed


def stored_erasures(connection: apsw.Connection) -> Sequence[TextsErased]:
    """Return the marker of every erasure."""
    return [
        from_json(body, TextsErased) for (body,) in rows_of(connection, "SELECT body FROM erasures ORDER BY marker_id")
    ]


def page_saying(connection: apsw.Connection, text: str, after: int) -> tuple[int | None, Sequence[TurnId]]:
    """Search the texts of the next facts.

    Returns:
        the number after which the next page begins, or None at the end; and the turns with a fact that contains `text`.
    """
    up_to = after + SEARCHED
    # The column holds MessagePack, which contains the UTF-8 bytes of each string unchanged. `instr` compares bytes, and
    # not characters, because both of its arguments are BLOBs.
    rows = rows_of(connection, SAYING, (after, up_to, text.encode()))
    newest = rows_of(connection, "SELECT coalesce(max(number), 0) FROM facts")[0][0]
    # Retention leaves gaps in the numbers, so an empty page is not yet the end.
    return up_to if up_to < newest else None, [TurnId(turn_id) for (turn_id,) in rows]


def erase(connection: apsw.Connection, erasure: Erasure) -> None:
    """Store the marker of an erasure, and remove the texts of its facts and the frames of their turns.

    Raises:
        RecordConflict: one of the facts does not exist, was changed, or has no texts.
    """
    marker = erasure.marker
    # As in `remove`, this row permits changes of facts. The trigger accepts an UPDATE of texts only with this reason,
    # and never a change of other columns.
    connection.execute("INSERT INTO purging VALUES ('erasure')")
    for fact in erasure.facts:
        connection.execute(ERASED, (fact.texts_digest, marker.marker_id, fact.turn_id, fact.version, fact.link))
        # The erasure was computed from an earlier read. If a fact has changed since, the error rolls everything back.
        if connection.changes() != 1:
            raise RecordConflict("a fact that is to be erased is not there, or has no texts")
    for turn_id in erasure.turns:
        connection.execute(FRAMES_OF, (turn_id,))
    connection.execute("INSERT INTO erasures VALUES (?,?)", (marker.marker_id, msgspec.json.encode(marker).decode()))
    connection.execute("DELETE FROM purging")


def remove_frames(connection: apsw.Connection, ended_before: datetime) -> int:
    """Remove the runner frames of turns that ended before a time. Return the number of attempts with removed frames."""
    connection.execute("INSERT INTO purging VALUES ('retention of frames')")
    # Open turns are not affected: their `ended_at` is NULL, which no comparison matches.
    connection.execute(OLD_FRAMES, (microseconds(ended_before),))
    removed = connection.changes()
    connection.execute("DELETE FROM purging")
    return removed


class SqliteArchiveReads(ABC):
    """Reads for verification, in the running sidecar and offline. Long results are read in pages.

    Each page is one state of the file.
    """

    async def roots(self) -> Sequence[RootState]:
        """Return the present state of each running root."""
        return await self._read(roots)

    async def facts_of_day(self, day: date) -> AsyncIterator[Stored]:
        """Iterate over all facts of the turns of a day."""
        # The upper bound is read once. Otherwise the loop might never end if a sidecar appends facts all the time.
        lowest, up_to = await self._read(lambda connection: bounds_of(connection, day))
        read_page = partial(page_of_day, day=day, up_to=up_to)
        after = lowest - 1
        while facts := await self._read(partial(read_page, after=after), f"the facts after {after}"):
            for after, fact in facts:  # noqa: B007  the last one is where the next page begins
                yield fact

    async def turn_ids(self) -> AsyncIterator[TurnId]:
        """Iterate over the ids of all turns."""
        after = 0
        while page := await self._read(partial(turn_page, after=after), f"the turns after {after}"):
            for after, turn_id in page:  # noqa: B007  the last one is where the next page begins
                yield turn_id

    async def markers(self) -> Sequence[FactsRemoved]:
        """Return every marker of removed facts."""
        return await self._read(stored_markers)

    async def erasures(self) -> Sequence[TextsErased]:
        """Return the marker of every erasure."""
        return await self._read(stored_erasures)

    @abstractmethod
    async def _read(self, work: Callable[[apsw.Connection], Result], what: str = "the record") -> Result:
        """Run `work` on one state of the file, and return its result. Raises `StoreUnavailable`.

        `what` is the name of what it reads, for messages.
        """
