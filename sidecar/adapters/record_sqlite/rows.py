"""Converts facts to values of SQLite rows and back, and inserts rows in groups.

A fact that is read equals the fact that was appended.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any, Final

import apsw

from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.entries import Stored

Value = str | int | bytes | None
Row = tuple[Any, ...]
"""One row of a result. The tables are STRICT, so the types are those of the schema."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
FACT_COLUMNS: Final = "i.instance, f.at, f.body, f.texts, f.salt, f.texts_digest, f.link, f.erased_under"
FRAMES_OF_A_FACT: Final = 65_536
"""Maximum number of attempts whose frames are stored with one fact. The place of an attempt is the number of the fact
times this, plus the index of the attempt. A range of places therefore belongs to each fact, without another column."""
WITH_FRAMES: Final = f"""
turns t JOIN facts f ON f.turn = t.number JOIN attempt_frames a
  ON a.place >= f.number * {FRAMES_OF_A_FACT} AND a.place < (f.number + 1) * {FRAMES_OF_A_FACT}
"""
MOST_ROWS: Final = 64
"""Maximum number of rows of one INSERT. Each has a power of two, so that few different statements are prepared."""


def microseconds(time: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (time - EPOCH) // MICROSECOND


def time_of(number: int) -> datetime:
    """Return the time, in UTC, of a number of `microseconds`."""
    return EPOCH + number * MICROSECOND


def day_of(text: str) -> date:
    """Return the day that the schema stores as `text`."""
    return date.fromisoformat(text)


def fact_from(turn_id: TurnId, row: Row) -> Stored:
    """Return the fact that a row of `FACT_COLUMNS` holds."""
    # The other columns are in the order of the fields of `Stored`.
    instance, at, *rest = row
    return Stored(turn_id, InstanceId(instance), time_of(at), *rest)


def rows_of(connection: apsw.Connection, statement: str, values: Sequence[Value] = ()) -> list[Row]:
    """Return all rows of a statement."""
    return connection.execute(statement, values).fetchall()


def insert(connection: apsw.Connection, into: str, rows: Sequence[Sequence[Value]]) -> None:
    """Insert rows with few statements. The connection keeps the statement of each size prepared.

    Args:
        connection: within a transaction.
        into: the part of the statement between `INSERT` and `VALUES`, e.g. `INTO turns (number)`.
        rows: the values of each row.
    """
    # 70 rows are 64, 4 and 2: three statements, each of them prepared before.
    begin = 0
    while begin < len(rows):
        # The largest power of two that is not more than the number of remaining rows.
        size = min(MOST_ROWS, 1 << (len(rows) - begin).bit_length() - 1)
        values = [value for row in rows[begin : begin + size] for value in row]
        connection.execute(_insert_statement(into, size, len(rows[begin])), values)
        begin += size


@cache
def _insert_statement(into: str, rows: int, columns: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"INSERT {into} VALUES {','.join([row] * rows)}"  # noqa: S608 - names and question marks only


def first(rows: Iterable[Row]) -> Row | None:
    """Return the first row, if there is one."""
    return next(iter(rows), None)
