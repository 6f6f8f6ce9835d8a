"""Writes and reads the rows of the lists of turns and episodes, in the SQLite file of the projection.

The caller runs each function within one transaction. A *line* is the row of one turn with its version, i.e. the number
of facts from which it was derived.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final

import apsw
import msgspec

from sidecar.adapters.record_sqlite.rows import Row, Value, first, insert, microseconds, rows_of, time_of
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, TurnQuery, TurnRow
from sidecar.core.identifiers import EpisodeId, Principal, TurnId
from sidecar.core.listing.changes import ReadPosition, Watermarks
from sidecar.core.listing.row_columns import COLUMNS, columns_of, row_from, slots_from
from sidecar.core.listing.turn_rows import (
    EpisodeActivity,
    Newer,
    TurnLine,
    episode_rows,
    labels_asked,
    labels_of,
    listed,
    use_of,
)

TURN: Final = f"OR REPLACE INTO turns (version, day, shown, {COLUMNS})"
LABEL: Final = "OR IGNORE INTO labels (label, began_at, turn_id)"
"""`IGNORE`, because `keep` leaves the labels of a turn in the table if none of them has become wrong."""
KEPT: Final = f"SELECT version, shown, {COLUMNS} FROM turns WHERE turn_id = ?"  # noqa: S608 - names only
OF_DAY: Final = "SELECT turn_id FROM turns WHERE day = ?"
USED: Final = """
INSERT OR REPLACE INTO episodes
  SELECT episode_id, principal, began_at FROM turns
    WHERE episode_id = ? AND principal = ? AND shown = 1 ORDER BY began_at DESC LIMIT 1
"""
UNUSED: Final = "DELETE FROM episodes WHERE episode_id = ? AND principal = ?"
NEWEST_EPISODES: Final = """
SELECT episode_id, principal FROM episodes WHERE (last_at, episode_id, principal) < (?, ?, ?)
  ORDER BY last_at DESC, episode_id DESC, principal DESC LIMIT ?
"""
USES: Final = """
SELECT episode_id, principal, count(*), max(began_at), min(printf('%020d', began_at) || turn_id), slots FROM turns
  WHERE episode_id = ? AND principal = ? AND shown = 1 AND turn_id NOT IN (SELECT value FROM json_each(?))
  GROUP BY slots
"""
"""The turns of one episode, summed up by their slots, without turns whose newer rows the caller has.

The slots of the episode are the union of these few rows.
"""
VERSIONS: Final = "SELECT turn_id, version FROM turns WHERE turn_id IN (SELECT value FROM json_each(?))"
# Compares `began_at`, too, because it is the second column of the primary key: the row is found without a scan.
HAS_LABEL: Final = (
    "EXISTS (SELECT 1 FROM labels o WHERE o.label = ? AND o.began_at = t.began_at AND o.turn_id = t.turn_id)"
)
LATEST: Final = 2**63 - 1
"""In microseconds; later than any time."""
DIGITS: Final = 20
"""Width of the time in front of a turn id in `USES`, so that the smallest text is that of the oldest turn."""

Episode = tuple[str, str]
"""Episode id and principal. The same id of two users means two episodes."""


def watermarks(connection: apsw.Connection) -> Watermarks:
    """Return the positions up to which the journal was projected."""
    # Read in one transaction with the count: `apply` writes both together.
    marks = {
        sequence: ReadPosition(number, link)
        for sequence, number, link in rows_of(connection, "SELECT sequence, number, link FROM watermarks")
    }
    return Watermarks(marks, connection.execute("SELECT alterations FROM taken").get)


def set_watermarks(connection: apsw.Connection, reached: Watermarks) -> None:
    """Store the watermarks of the projected part of the journal."""
    marks = [(sequence, mark.number, mark.link) for sequence, mark in reached.reached.items()]
    insert(connection, "OR REPLACE INTO watermarks (sequence, number, link)", marks)
    connection.execute("UPDATE taken SET alterations = ?", (reached.alterations,))


def forget(connection: apsw.Connection, days: Sequence[date], gone: Sequence[TurnId]) -> None:
    """Remove the rows of the turns of `days`, and those of the turns `gone`."""
    turn_ids = [turn_id for day in days for (turn_id,) in rows_of(connection, OF_DAY, (day.isoformat(),))]
    episodes: dict[Episode, None] = {}
    # A dictionary is used as a set, to compute the last use of each episode once, after all of its turns were removed.
    for turn_id in (*turn_ids, *gone):
        _remove_turn(connection, turn_id, episodes)
    _find_last_use(connection, episodes)


def keep(connection: apsw.Connection, lines: Sequence[TurnLine]) -> None:
    """Store lines, except those for whose turn a newer version is stored."""
    turns: list[Sequence[Value]] = []
    labels: list[Sequence[Value]] = []
    episodes: dict[Episode, None] = {}
    for line in lines:
        kept = first(rows_of(connection, KEPT, (line.turn_id,)))
        # An older line can arrive after a newer one, from a pass that read the journal earlier.
        if kept is not None and kept[0] > line.version:
            continue
        if kept is not None and not _only_adds(kept, line.row):
            _remove_turn(connection, line.turn_id, episodes)
        turns.append(
            (
                line.version,
                line.day.isoformat(),
                int(line.row is not None),  # an omitted turn is stored, too, for its version: see `columns_of`
                *columns_of(line.turn_id, line.row, microseconds, 0),
            )
        )
        if line.row is not None:
            began_at = microseconds(line.row.began_at)
            labels += [(label, began_at, line.turn_id) for label in labels_of(line.row)]
            episodes[line.row.episode_id, line.row.principal] = None
    insert(connection, TURN, turns)
    insert(connection, LABEL, labels)
    _find_last_use(connection, episodes)  # last, because it reads the rows of turns


def _only_adds(kept: Row, row: TurnRow | None) -> bool:
    """Return whether the stored rows of a turn in other tables stay correct, so that none has to be removed.

    This is the usual case and saves the removals, e.g. if a turn only gets another label.
    """
    _, shown, *values = kept
    # A turn that lists omit has no rows in other tables.
    if row is None or not shown:
        return row is None and not shown
    was = row_from(tuple(values), time_of)
    same = (was.began_at, was.episode_id, was.principal) == (row.began_at, row.episode_id, row.principal)
    return same and set(labels_of(was)) <= set(labels_of(row))


def _remove_turn(connection: apsw.Connection, turn_id: TurnId, episodes: dict[Episode, None]) -> None:
    """Remove a turn, and add its episode to `episodes`, because the last use of the episode may change."""
    kept = first(rows_of(connection, KEPT, (turn_id,)))
    if kept is None:
        return
    connection.execute("DELETE FROM turns WHERE turn_id = ?", (turn_id,))
    _, shown, *values = kept
    if shown:
        # From the stored row and not from the new one, which may no longer have some of these labels.
        row = row_from(tuple(values), time_of)
        places = [(label, microseconds(row.began_at), turn_id) for label in labels_of(row)]
        for place in places:
            connection.execute("DELETE FROM labels WHERE label = ? AND began_at = ? AND turn_id = ?", place)
        episodes[row.episode_id, row.principal] = None


def _find_last_use(connection: apsw.Connection, episodes: Iterable[Episode]) -> None:
    for episode in episodes:
        # The newest remaining turn is the last use of the episode. Without any turn, the episode leaves the list.
        connection.execute(USED, episode)
        if connection.changes() == 0:
            connection.execute(UNUSED, episode)


def versions(connection: apsw.Connection, turn_ids: Sequence[TurnId]) -> dict[TurnId, int]:
    """Return the version of each stored line, by turn."""
    asked = msgspec.json.encode(turn_ids).decode()
    return {TurnId(turn_id): version for turn_id, version in rows_of(connection, VERSIONS, (asked,))}


def turns(connection: apsw.Connection, query: TurnQuery, newer: Newer) -> list[TurnRow]:
    """Return a list of turns, newest first.

    Args:
        connection: within a read transaction.
        query: selects the turns.
        newer: rows of turns whose newest facts are not projected yet; None: the turn is not listed.
    """
    labels = labels_asked(query)
    order = "l" if labels else "t"
    conditions: list[tuple[str, tuple[Value, ...] | None]] = [
        ("t.shown = 1", ()),
        ("t.episode_id = ?", _given(query.episode_id)),
        ("t.principal = ?", _given(query.principal)),
        ("t.state = ?", _given(query.state)),
        # The labels are read in order of time from the index of the rarest one, which also sorts the result.
        ("l.label = ?", tuple(labels[:1]) or None),
        *((HAS_LABEL, (label,)) for label in labels[1:]),
        (f"{order}.began_at >= ?", None if query.since is None else (microseconds(query.since),)),
        (f"{order}.began_at < ?", None if query.until is None else (microseconds(query.until),)),
        (
            f"({order}.began_at, {order}.turn_id) < (?, ?)",
            query.before and (microseconds(query.before[0]), query.before[1]),
        ),
    ]
    asked = [(condition, given) for condition, given in conditions if given is not None]
    source = "labels l JOIN turns t ON t.turn_id = l.turn_id" if labels else "turns t"
    columns = ", ".join(f"t.{column}" for column in COLUMNS.split(", "))
    rows = rows_of(
        connection,
        f"SELECT {columns} FROM {source} WHERE {' AND '.join(condition for condition, _ in asked)}"  # noqa: S608 - names and question marks only
        f" ORDER BY {order}.began_at DESC, {order}.turn_id DESC LIMIT ?",
        # One row more for each newer row: `listed` replaces or drops as many of the stored ones.
        (*(value for _, given in asked for value in given), query.limit + len(newer)),
    )
    return listed((row_from(row, time_of) for row in rows), newer, query)


def _given(value: str | None) -> tuple[Value, ...] | None:
    return None if value is None else (str(value),)


def episodes(
    connection: apsw.Connection, limit: int, newer: Newer, before: EpisodeMark | None = None
) -> list[EpisodeRow]:
    """Return the episodes that were used last, the latest first, after the place `before`."""
    uses = [use_of(row) for row in newer.values() if row is not None]
    place = (LATEST, "", "") if before is None else (microseconds(before[0]), before[1], before[2])
    # Also the episodes of turns that are not projected yet, even if their stored last use is old.
    wanted = dict.fromkeys((use.episode_id, use.principal) for use in uses)
    # One episode more for each newer row, because the row may bring its episode forward, and another one back in.
    wanted |= dict.fromkeys(rows_of(connection, NEWEST_EPISODES, (*place, limit + len(newer))))
    # Their stored rows are outdated, and `uses` has the newer ones already.
    left_out = msgspec.json.encode(list(newer)).decode()
    for episode in wanted:
        uses += map(_use, rows_of(connection, USES, (*episode, left_out)))
    return episode_rows(uses, limit, before)


def _use(values: Row) -> EpisodeActivity:
    episode_id, principal, count, last_at, first_turn, slots = values
    began = time_of(int(first_turn[:DIGITS])), TurnId(first_turn[DIGITS:])
    return EpisodeActivity(
        EpisodeId(episode_id), Principal(principal), began, time_of(last_at), count, slots_from(slots)
    )
