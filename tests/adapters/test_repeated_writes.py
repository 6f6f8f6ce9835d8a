"""A write that lost against another one is repeated a limited number of times, and only if nothing of it was stored."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import asyncpg
import pytest

from sidecar.adapters.postgresql import Connections, StatementExecutor
from sidecar.adapters.postgresql.failures import ConnectionLost
from sidecar.adapters.postgresql.statements import TRIES
from sidecar.adapters.record_memory import MemoryJournal
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import TurnAppend
from sidecar.operations.record.journal_store import MOST_TRIES
from sidecar.operations.record.ports import CommitUnknown
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import a_dispatch


class FailingConnections:
    """Raises each of `errors` once, then runs the work.

    Attributes:
        runs: how often work was run or failed.
    """

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.runs = 0

    async def run(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        """Run the work without a connection."""
        self.runs += 1
        if self.errors:
            raise self.errors.pop(0)
        return await work(None)


async def committed(connections: FailingConnections) -> str:
    """Commit work that returns a word."""

    async def work(connection: object) -> str:
        return "kept"

    writer = cast("Connections", connections)
    return await StatementExecutor(writer, writer, "keep a change").commit(work)


@pytest.mark.parametrize("error", [asyncpg.DeadlockDetectedError, asyncpg.SerializationError])
async def test_a_deadlock_is_repeated_until_the_last_try(error: type[Exception]) -> None:
    """PostgreSQL has rolled back the transaction. After the last try the caller learns that nothing was stored."""
    connections = FailingConnections(*(error("lost") for _ in range(TRIES - 1)))
    assert (await committed(connections), connections.runs) == ("kept", TRIES)

    connections = FailingConnections(*(error("lost") for _ in range(TRIES)))
    with pytest.raises(StoreUnavailable):
        await committed(connections)
    assert connections.runs == TRIES


@pytest.mark.parametrize(
    ("error", "raised"),
    [(asyncpg.UniqueViolationError("twice"), StoreUnavailable), (ConnectionLost("no answer"), CommitUnknown)],
)
async def test_no_other_failure_is_repeated(error: Exception, raised: type[Exception]) -> None:
    """Another error would come again; after a lost connection the transaction may have been committed."""
    connections = FailingConnections(error)
    with pytest.raises(raised):
        await committed(connections)
    assert connections.runs == 1


class OvertakenJournal(MemoryJournal):
    """Loses the comparison of versions `lost` times, as if other sidecars had appended to the turn in between.

    Attributes:
        tries: number of appends.
    """

    lost = tries = 0

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Store the facts, or lose."""
        self.tries += 1
        return [False] * len(appends) if self.tries <= self.lost else await super().append(appends)


async def test_a_lost_comparison_is_decided_again_a_limited_number_of_times() -> None:
    """The last try may still succeed. If it does not, the caller learns that nothing was stored."""
    for lost, succeeds in ((MOST_TRIES - 1, True), (MOST_TRIES, False)):
        journal = OvertakenJournal()
        journal.lost = lost
        record = OpenedRecord(journal)
        if succeeds:
            await record.append([a_dispatch("turn-1")])
        else:
            with pytest.raises(StoreUnavailable, match="other sidecars"):
                await record.append([a_dispatch("turn-1")])
        assert journal.tries == MOST_TRIES
        assert bool((await journal.facts(TurnId("turn-1"))).facts) is succeeds
