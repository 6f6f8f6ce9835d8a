"""What a database brings to be held to the rules of `sidecar/operations/record/ports.py`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pytest

from sidecar.core.errors import RecordConflict
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import TurnId
from sidecar.operations.record.ports import Database


class RecordBench(ABC):
    """One record, which is empty when it is entered and gone afterwards."""

    @abstractmethod
    async def open(self, instance: str) -> Database:
        """Return the database as a process sees it that has just started under the id `instance`.

        PostgreSQL: a pool of its own, and a lease that is renewed by `renew_lease` only; long enough for a test.
        """

    @abstractmethod
    async def kill(self, database: Database) -> None:
        """Let the process of `database` be dead for all others, as soon as this returns.

        PostgreSQL: let its lease run out in the database, e.g. by setting the end of it to the past.
        """

    async def __aenter__(self) -> Self:
        """Make an empty record."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close every database that was opened, and remove the record."""
        return


async def refuses(database: Database, *records: Record) -> None:
    """Fail unless the group is refused and nothing of its turns has changed."""
    turns = {record.run_id if isinstance(record, ChildEvent) else record.turn_id for record in records}
    before = [await state_of(database, turn) for turn in sorted(turns)]
    with pytest.raises(RecordConflict):
        await database.commit(records)
    assert [await state_of(database, turn) for turn in sorted(turns)] == before


async def state_of(database: Database, turn_id: str) -> tuple[object, ...]:
    """Return everything that can be read of a turn, and where the running roots stand."""
    attempts: Sequence[object] = await database.attempts(TurnId(turn_id))
    return await database.turn(TurnId(turn_id)), tuple(attempts), tuple(await database.closed_states())
