"""What has changed in the journal since it was read for lists."""

from collections.abc import Sequence
from typing import Final

import apsw

from sidecar.adapters.record_sqlite.rows import FACT_COLUMNS, Found, fact_from, first, found, time_of
from sidecar.core.identifiers import TurnId
from sidecar.core.listing.changes import ChangedTurn, Changes, Reached, Watermarks
from sidecar.operations.record.ports import NotThisJournal

SEQUENCE: Final = "journal"
"""All facts of a file are numbered in one."""
LINK: Final = "SELECT link FROM facts WHERE number = ?"
NEXT: Final = "SELECT number, turn FROM facts WHERE number > ? ORDER BY number LIMIT ?"
END: Final = "SELECT coalesce(max(number), 0) FROM facts"
UP_TO: Final = f"""
SELECT t.turn_id, f.number, {FACT_COLUMNS}
  FROM facts f JOIN turns t ON t.number = f.turn JOIN instances i ON i.number = f.instance
  WHERE f.turn = ? AND f.number <= ? ORDER BY f.version
"""  # noqa: S608 - names only
ALTERATIONS: Final = """
SELECT (SELECT count(*) FROM markers) << 40 | (SELECT count(*) FROM facts INDEXED BY facts_erased WHERE texts IS NULL)
"""
"""Two counts in one number: another one whenever a day was removed, or a text erased."""
ERASED: Final = """
SELECT turn_id FROM turns WHERE number IN (SELECT turn FROM facts WHERE texts IS NULL) ORDER BY number
"""


def changed(connection: apsw.Connection, after: Watermarks, limit: int) -> Changes:
    """Return the turns of the next facts, each as it was after the last of these. Raises `NotThisJournal`."""
    mark = after.reached.get(SEQUENCE, Reached(0, b""))
    _check(connection, mark)
    end: int = connection.execute(END).get
    rows: list[Found] = found(connection, NEXT, (mark.number, limit)) if end > mark.number else []
    alterations: int = connection.execute(ALTERATIONS).get
    if not rows:
        return Changes((), Watermarks(after.reached, alterations, after.at), 0)
    reached: int = rows[-1][0]
    turns: list[ChangedTurn] = []
    newest: Found = ()
    for turn in dict.fromkeys(turn for _, turn in rows):
        facts = found(connection, UP_TO, (turn, reached))
        turn_id = TurnId(facts[0][0])
        turns.append(ChangedTurn(turn_id, tuple(fact_from(turn_id, tuple(row[2:])) for row in facts)))
        newest = max(newest, facts[-1][1:4], key=lambda each: each[:1])
    (link,) = first(found(connection, LINK, (reached,))) or (b"",)
    marks = Watermarks({SEQUENCE: Reached(reached, link)}, alterations, time_of(newest[2]))
    return Changes(tuple(turns), marks, end - reached)


def _check(connection: apsw.Connection, mark: Reached) -> None:
    if mark.number == 0:
        return
    kept = first(found(connection, LINK, (mark.number,)))
    if kept is None or kept[0] != mark.link:
        raise NotThisJournal(f"fact {mark.number} is {'not there' if kept is None else 'another one'}")


def erased_turns(connection: apsw.Connection) -> Sequence[TurnId]:
    """Return the turns that have facts without texts."""
    return [TurnId(turn_id) for (turn_id,) in found(connection, ERASED)]
