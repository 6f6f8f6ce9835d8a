"""Work in a database of either kind, as the statements that it makes one after the other.

A piece of work is a generator that yields statements and is sent their rows. It says what is read and written, and a
database says how: SQLite in a thread, PostgreSQL over a connection of the event loop. Places are `$1`, `$2` and so on,
in the order in which they first appear, because SQLite counts them so. Times are `datetime`; texts may hold anything.
"""

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")

Statement = tuple[Any, ...]
"""SQL, and its values."""
Steps = Generator[Statement, Sequence[Sequence[Any]], Result]


def value(sql: str, *values: Any) -> Steps[Any]:
    """Return the only value that a statement gives; None if it gives no row."""
    rows = yield (sql, *values)
    return rows[0][0] if rows else None
