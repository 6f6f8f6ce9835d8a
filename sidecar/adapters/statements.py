"""Work in a database of either kind, as a sequence of statements.

A piece of work is a generator that yields statements and receives their rows. It decides what is read and written; the
database decides how: SQLite in a thread, PostgreSQL over a connection of the event loop. Placeholders are `$1`, `$2`
and so on, in the order in which they first appear, because SQLite counts them so. Times are `datetime`; texts may
contain any character.
"""

from collections.abc import Generator, Sequence
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

ROWS_AT_ONCE: Final = 100
"""Rows of one insert. Each database limits the placeholders of a statement: 32,766 in SQLite, 32,767 in PostgreSQL."""

Statement = tuple[Any, ...]
"""SQL, and its values."""
Steps = Generator[Statement, Sequence[Sequence[Any]], Result]


def value(sql: str, *values: Any) -> Steps[Any]:
    """Return the only value of a statement's result; None if there is no row."""
    rows = yield (sql, *values)
    return rows[0][0] if rows else None


def insert(table: str, rows: Sequence[Sequence[Any]]) -> Steps[None]:
    """Insert rows of all columns, many with each statement."""
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        page = rows[begin : begin + ROWS_AT_ONCE]
        places = [f"${place}" for place in range(1, len(page) * len(page[0]) + 1)]
        lists = [f"({', '.join(places[at : at + len(page[0])])})" for at in range(0, len(places), len(page[0]))]
        yield (f"insert into {table} values {', '.join(lists)}", *[value for row in page for value in row])  # noqa: S608 - names and places only
