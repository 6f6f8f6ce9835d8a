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
STORED: Final = f"SELECT version, shown, {COLUMNS} FROM turns WHERE turn_id = ?"  # noqa: S608 - names only
OF_DAY: Final = "SELECT turn_id FROM turns WHERE day = ?"
LAST_USE: Final = """
INSERT OR REPLACE INTO episodes
  SELECT episode_id, principal, began_at FROM turns
    WHERE episode_id = ? AND principal = ? AND shown = 1 ORDER BY began_at DESC LIMIT 1
"""
"""Stores the newest listed turn of an episode as its last use; writes nothing if there is no such turn."""
NO_USE: Final = "DELETE FROM episodes WHERE episode_id = ? AND principal = ?"
"""Removes an episode without listed turns from the list."""
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
    # A dictionary is used as a set, to compute the last use of each episode once, after all of its turns were removed.
    episodes: dict[Episode, None] = {}
    for turn_id in (*turn_ids, *gone):
        _remove_turn(connection, turn_id, episodes)
    _find_last_use(connection, episodes)


def keep(connection: apsw.Connection, lines: Sequence[TurnLine]) -> None:
    """Store lines, except those for whose turn a newer version is stored."""
    turns: list[Sequence[Value]] = []
    labels: list[Sequence[Value]] = []
    episodes: dict[Episode, None] = {}
    for line in lines:
        stored = first(rows_of(connection, STORED, (line.turn_id,)))
        # An older line can arrive after a newer one, from a pass that read the journal earlier.
        if stored is not None and stored[0] > line.version:
            continue
        if stored is not None and not _only_adds(stored, line.row):
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


def _only_adds(stored: Row, row: TurnRow | None) -> bool:
    """Return whether the stored rows of a turn in other tables stay correct, so that none has to be removed.

    This is the usual case and saves the removals, e.g. if a turn only gets another label.
    """
    _, shown, *values = stored
    # A turn that lists omit has no rows in other tables.
    if row is None or not shown:
        return row is None and not shown
    old = row_from(tuple(values), time_of)
    same_place = (old.began_at, old.episode_id, old.principal) == (row.began_at, row.episode_id, row.principal)
    return same_place and set(labels_of(old)) <= set(labels_of(row))


def _remove_turn(connection: apsw.Connection, turn_id: TurnId, episodes: dict[Episode, None]) -> None:
    """Remove a turn, and add its episode to `episodes`, because the last use of the episode may change."""
    stored = first(rows_of(connection, STORED, (turn_id,)))
    if stored is None:
        return
    connection.execute("DELETE FROM turns WHERE turn_id = ?", (turn_id,))
    _, shown, *values = stored
    if shown:
        # From the stored row and not from the new one, which may no longer have some of these labels.
        row = row_from(tuple(values), time_of)
        keys = [(label, microseconds(row.began_at), turn_id) for label in labels_of(row)]
        for key in keys:
            connection.execute("DELETE FROM labels WHERE label = ? AND began_at = ? AND turn_id = ?", key)
        episodes[row.episode_id, row.principal] = None


def _find_last_use(connection: apsw.Connection, episodes: Iterable[Episode]) -> None:
    for episode in episodes:
        # The newest remaining turn is the last use of the episode. Without any turn, the episode leaves the list.
        connection.execute(LAST_USE, episode)
        if connection.changes() == 0:
            connection.execute(NO_USE, episode)


def versions(connection: apsw.Connection, turn_ids: Sequence[TurnId]) -> dict[TurnId, int]:
    """Return the version of each stored line, by turn."""
    ids_json = msgspec.json.encode(turn_ids).decode()
    return {TurnId(turn_id): version for turn_id, version in rows_of(connection, VERSIONS, (ids_json,))}


def turns(connection: apsw.Connection, query: TurnQuery, newer: Newer) -> list[TurnRow]:
    """Return a list of turns, newest first.

    Args:
        connection: within a read transaction.
        query: selects the turns.
        newer: rows of turns whose newest facts are not projected yet; None: the turn is not listed.
    """
    labels = labels_asked(query)
    # The table that selects and sorts the turns.
    leading = "l" if labels else "t"
    # Conditions with the values of their question marks; None: the query does not have this filter.
    conditions: list[tuple[str, tuple[Value, ...] | None]] = [
        ("t.shown = 1", ()),
        ("t.episode_id = ?", _filter_value(query.episode_id)),
        ("t.principal = ?", _filter_value(query.principal)),
        ("t.state = ?", _filter_value(query.state)),
        # The labels are read in order of time from the index of the rarest one, which also sorts the result.
        ("l.label = ?", tuple(labels[:1]) or None),
        *((HAS_LABEL, (label,)) for label in labels[1:]),
        (f"{leading}.began_at >= ?", None if query.since is None else (microseconds(query.since),)),
        (f"{leading}.began_at < ?", None if query.until is None else (microseconds(query.until),)),
        (
            f"({leading}.began_at, {leading}.turn_id) < (?, ?)",
            query.before and (microseconds(query.before[0]), query.before[1]),
        ),
    ]
    applied = [(condition, values) for condition, values in conditions if values is not None]
    source = "labels l JOIN turns t ON t.turn_id = l.turn_id" if labels else "turns t"
    columns = ", ".join(f"t.{column}" for column in COLUMNS.split(", "))
    rows = rows_of(
        connection,
        f"SELECT {columns} FROM {source} WHERE {' AND '.join(condition for condition, _ in applied)}"  # noqa: S608 - names and question marks only
        f" ORDER BY {leading}.began_at DESC, {leading}.turn_id DESC LIMIT ?",
        # One row more for each newer row: `listed` replaces or drops as many of the stored ones.
        (*(value for _, values in applied for value in values), query.limit + len(newer)),
    )
    return listed((row_from(row, time_of) for row in rows), newer, query)


def _filter_value(value: str | None) -> tuple[Value, ...] | None:
    return None if value is None else (str(value),)


def episodes(
    connection: apsw.Connection, limit: int, newer: Newer, before: EpisodeMark | None = None
) -> list[EpisodeRow]:
    """Return the episodes that were used last, the latest first, after the place `before`."""
    uses = [use_of(row) for row in newer.values() if row is not None]
    place = (LATEST, "", "") if before is None else (microseconds(before[0]), before[1], before[2])
    # Also the episodes of turns that are not projected yet, even if their stored last use is old.
    candidates = dict.fromkeys((use.episode_id, use.principal) for use in uses)
    # One episode more for each newer row: with this row, its episode may belong on an earlier page, and a further
    # episode takes its place here.
    candidates |= dict.fromkeys(rows_of(connection, NEWEST_EPISODES, (*place, limit + len(newer))))
    # The stored rows of these turns are outdated, and `uses` has the newer ones already.
    newer_turns = msgspec.json.encode(list(newer)).decode()
    for episode in candidates:
        uses += map(_use, rows_of(connection, USES, (*episode, newer_turns)))
    return episode_rows(uses, limit, before)


def _use(values: Row) -> EpisodeActivity:
    episode_id, principal, count, last_at, first_turn, slots = values
    began = time_of(int(first_turn[:DIGITS])), TurnId(first_turn[DIGITS:])
    return EpisodeActivity(
        EpisodeId(episode_id), Principal(principal), began, time_of(last_at), count, slots_from(slots)
    )
