"""Runs work that is written for either kind of database. SQLite stores times as microseconds since 1970."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import apsw

from sidecar.adapters.statements import Steps

Result = TypeVar("Result")

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


def run(connection: apsw.Connection, steps: Steps[Result]) -> Result:
    """Run the statements of `steps`, inside a transaction of one of the engine's threads, and return its result."""
    rows: Any = None  # a generator accepts only None before its first `yield`
    while True:
        try:
            sql, *values = steps.send(rows)
        except StopIteration as end:
            result: Result = end.value
            return result
        converted = [(each - EPOCH) // MICROSECOND if isinstance(each, datetime) else each for each in values]
        rows = connection.execute(sql, converted).fetchall()


def time_of(microseconds: int) -> datetime:
    """Return the time of a number of microseconds."""
    return EPOCH + microseconds * MICROSECOND
