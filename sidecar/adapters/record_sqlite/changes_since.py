"""Reads the facts of the SQLite journal that the rows of the lists do not contain yet; for the projector."""

from collections.abc import Sequence
from typing import Final

import apsw

from sidecar.adapters.record_sqlite.rows import FACT_COLUMNS, Row, fact_from, first, rows_of
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.entries import Stored
from sidecar.core.listing.changes import ChangedTurn, Changes, ReadPosition, Watermarks
from sidecar.operations.record.ports import NotThisJournal

SEQUENCE: Final = "journal"
"""The name of the only sequence of numbers. All facts of a file are numbered together, unlike in PostgreSQL."""
LINK: Final = "SELECT link FROM facts WHERE number = ?"
NEXT: Final = f"""
SELECT f.number, t.turn_id, f.version, {FACT_COLUMNS}
  FROM facts f JOIN turns t ON t.number = f.turn JOIN instances i ON i.number = f.instance
  WHERE f.number > ? ORDER BY f.number LIMIT ?
"""  # noqa: S608 - names only
END: Final = "SELECT coalesce(max(number), 0) FROM facts"
ALTERATIONS: Final = "SELECT (SELECT count(*) FROM markers) + (SELECT count(*) FROM erasures)"
ERASED: Final = """
SELECT turn_id FROM turns WHERE number IN (SELECT turn FROM facts WHERE texts IS NULL) ORDER BY number
"""


def changed(connection: apsw.Connection, after: Watermarks, limit: int) -> Changes:
    """Return the next facts after a position, by turn, and the position that is then reached.

    Args:
        connection: within a read transaction.
        after: the position up to which the journal was projected.
        limit: maximum number of facts.

    Raises:
        NotThisJournal: the position belongs to another journal, or to a later state of a restored one.
    """
    mark = after.reached.get(SEQUENCE, ReadPosition(0, b""))
    _check(connection, mark)
    # All statements run in one read transaction, so the facts and the count of alterations are of one state.
    end: int = connection.execute(END).get
    rows: list[Row] = rows_of(connection, NEXT, (mark.number, limit)) if end > mark.number else []
    alterations: int = connection.execute(ALTERATIONS).get
    if not rows:
        return Changes((), Watermarks(after.reached, alterations), 0)
    # Both dictionaries have the turns in the order of their first fact here.
    first_versions: dict[TurnId, int] = {}
    facts: dict[TurnId, list[Stored]] = {}
    for _, turn_id, version, *columns in rows:
        first_versions.setdefault(turn_id, version)
        facts.setdefault(turn_id, []).append(fact_from(turn_id, tuple(columns)))
    turns = tuple(ChangedTurn(turn_id, first_versions[turn_id], tuple(new)) for turn_id, new in facts.items())
    # The last row belongs to the turn of its second column, and is the last fact of this turn in the page.
    reached, newest = rows[-1][0], facts[rows[-1][1]][-1]
    marks = Watermarks({SEQUENCE: ReadPosition(reached, newest.link)}, alterations)
    return Changes(turns, marks, end - reached, newest.at if end > reached else None)


def _check(connection: apsw.Connection, mark: ReadPosition) -> None:
    if mark.number == 0:
        return
    row = first(rows_of(connection, LINK, (mark.number,)))
    # The link depends on all earlier facts of the turn, so an equal number in another or a restored file is detected.
    if row is None or row[0] != mark.link:
        raise NotThisJournal(f"fact {mark.number} {'does not exist' if row is None else 'has another link'}")


def erased_turns(connection: apsw.Connection) -> Sequence[TurnId]:
    """Return the turns whose texts were erased."""
    return [TurnId(turn_id) for (turn_id,) in rows_of(connection, ERASED)]
