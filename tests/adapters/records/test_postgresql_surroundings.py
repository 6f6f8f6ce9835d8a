"""What stands around the record in PostgreSQL: rights, poolers, servers that are not there."""

import asyncio
import re
import struct
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from sidecar.adapters.memory_postgresql import PostgresMemory
from sidecar.adapters.postgresql import (
    ConnectionLost,
    Connections,
    ConnectionTimeouts,
    behind_transaction_pooler,
    redacted_dsn,
    upgrade,
)
from sidecar.adapters.record_postgresql import SCHEMA, JournalOptions, open_postgres_journal
from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.identifiers import InstanceId, TurnId
from tests.adapters.records.bench import OpenedRecord
from tests.adapters.records.reading_rules import a_marker
from tests.support.postgres import PORT, USER, PostgresServer
from tests.support.record_builders import a_dispatch, a_whole_turn, moment
from tests.support.requirement import requirement

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "postgresql.md"
ROLES, RETENTION, POOLERS = re.findall(r"```sql\n(.*?)```", DOCUMENTATION.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder in which a socket's path fits into 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="net-", dir="/tmp") as folder:
        yield Path(folder)


@asynccontextmanager
async def bare(dsn: str) -> AsyncIterator[Any]:
    """Give a connection without settings of ours."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def role(dsn: str, statements: str) -> AsyncIterator[str]:
    """Make the documented role, and take it away again; gives the address for it."""
    async with bare(dsn) as owner:
        await owner.execute(statements)
        try:
            yield dsn.replace(f"//{USER}@", "//sidecar_app@")
        finally:
            await owner.execute("drop owned by sidecar_app cascade; drop role sidecar_app")


async def opened(dsn: str, options: JournalOptions | None = None) -> OpenedRecord:
    """Return the record of one process."""
    return OpenedRecord(await open_postgres_journal(dsn, InstanceId("one"), options))


@requirement("SX-38")
async def test_the_documented_role_appends_and_reads_and_can_do_nothing_else(postgres_dsn: str) -> None:
    """Not change, not remove, not switch the triggers off; it makes partitions, and drops none."""
    await upgrade(postgres_dsn, SCHEMA, ConnectionTimeouts())
    async with role(postgres_dsn, ROLES + POOLERS) as dsn:
        record = await opened(dsn)
        await record.append(a_whole_turn())
        (root,) = await record.journal.roots()
        assert len([fact async for fact in record.journal.facts_of_day(root.day)]) == root.number
        for removing in (record.journal.remove([a_marker(root)]), record.journal.remove_frames(moment(1000))):
            with pytest.raises(StoreUnavailable, match="lacks a right"):
                await removing
        await record.journal.close()
        async with bare(dsn) as connection:
            for statement in (
                "update facts set body = ''",
                "delete from facts",
                "truncate facts_20260301",
                "delete from facts_20260301",
                "drop table facts_20260301",
                "set session_replication_role = replica",
                "alter table facts disable trigger all",
                "set sidecar.purging = 'on'; delete from facts",
                "set sidecar.purging = 'on'; delete from attempt_frames",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(statement)


async def test_the_documented_role_creates_the_tables_of_conversations(postgres_dsn: str) -> None:
    """In its own schema: the role may create nothing where the record is."""
    await upgrade(postgres_dsn, SCHEMA, ConnectionTimeouts())
    async with role(postgres_dsn, ROLES) as dsn:
        memory = PostgresMemory(dsn)
        await memory.open()
        await memory.close()
        async with bare(dsn) as connection:
            created = "select schemaname from pg_tables where tablename = 'history_episodes'"
            assert await connection.fetchval(created) == "sidecar_app"
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute("create table public.other ()")


async def test_the_documented_right_lets_a_sidecar_remove_what_a_marker_covers(postgres_dsn: str) -> None:
    """And nothing else; frames go earlier."""
    await upgrade(postgres_dsn, SCHEMA, ConnectionTimeouts())
    async with role(postgres_dsn, ROLES + RETENTION) as dsn:
        record = await opened(dsn)
        await record.append(a_whole_turn("turn-1"))
        await record.append(a_whole_turn("turn-2", at=86_400))
        (root,) = await record.journal.removable(moment(100))
        assert await record.journal.remove_frames(moment(100)) == 1
        with pytest.raises(RecordConflict):
            await record.journal.remove([a_marker(replace(root, root="0" * 64))])
        assert await record.journal.remove([a_marker(root)]) == 1
        assert [turn_id async for turn_id in record.journal.turn_ids()] == ["turn-2"]
        assert list(await record.journal.markers()) == [a_marker(root)]
        await record.journal.close()


class TransactionPooler:
    """Between client and server; notifications of the server get lost, as with a pooler that changes connections."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._carrying: list[asyncio.Future[Any]] = []

    def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one more connection."""
        self._carrying.append(asyncio.ensure_future(self._carry(reader, writer)))

    async def ended(self) -> None:
        """Wait for what is carried; its clients are gone."""
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(str(self._server.socket))
        answers = asyncio.ensure_future(self._answers(from_server, writer))
        while data := await reader.read(1 << 16):
            to_server.write(data)
        to_server.close()
        await asyncio.gather(answers, return_exceptions=True)
        writer.close()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readexactly(5)
            (length,) = struct.unpack("!I", head[1:])
            body = await reader.readexactly(length - 4)
            if head[:1] != b"A":
                writer.write(head + body)


async def test_a_pooler_that_loses_notifications_is_reported(
    postgres: PostgresServer, postgres_dsn: str, short_folder: Path
) -> None:
    """Directly nothing is reported; through it the anomaly is, and the record works all the same."""
    told: list[str] = []
    options = JournalOptions(anomaly=lambda kind, _detail: told.append(kind))
    assert not await behind_transaction_pooler(postgres_dsn, ConnectionTimeouts())
    pooler = TransactionPooler(postgres)
    listening = await asyncio.start_unix_server(pooler.carry, short_folder / f".s.PGSQL.{PORT}")
    record = await opened(postgres_dsn.replace(str(postgres.folder), str(short_folder)), options)
    try:
        assert told == ["transaction_pooler"]
        await record.append(a_whole_turn())
        assert await record.turn(TurnId("turn-1")) is not None
    finally:
        await record.journal.close()
        listening.close()
        await pooler.ended()
        await listening.wait_closed()


async def test_a_server_that_is_not_there_is_named_without_secrets(short_folder: Path) -> None:
    """Nobody listens at the address."""
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await open_postgres_journal(f"postgresql://u:hidden@/d?host={short_folder}", InstanceId("one"))
    assert (
        redacted_dsn("postgresql://u:hidden@db.example:5433/records")
        == "PostgreSQL database records at db.example:5433"
    )


async def test_a_row_that_is_held_is_not_waited_for_without_end(postgres_dsn: str) -> None:
    """The lock's limit ends it: nothing is kept, and everything goes on once the row is free."""
    record = await opened(postgres_dsn, JournalOptions(limits=ConnectionTimeouts(lock=0.1)))
    await record.append([a_dispatch()])
    async with bare(postgres_dsn) as other:
        async with other.transaction():
            await other.execute("select from turn_heads for update")
            with pytest.raises(StoreUnavailable, match="holds a lock"):
                await record.append([a_dispatch(dispatch="second", first_step=1)])
        await record.append([a_dispatch(dispatch="second", first_step=1)])
    await record.journal.close()


async def test_a_statement_that_takes_too_long_is_ended_by_the_server(postgres_dsn: str) -> None:
    """It gives up before we do, so that it is certain that nothing was kept."""
    record = await opened(postgres_dsn, JournalOptions(limits=ConnectionTimeouts(statement=0.5)))
    async with bare(postgres_dsn) as other:
        async with other.transaction():
            await other.execute("lock table turn_heads in access exclusive mode")
            with pytest.raises(StoreUnavailable, match="took too long"):
                await record.append([a_dispatch()])
            with pytest.raises(StoreUnavailable, match="took too long"):
                await record.overdue_turns(moment(0), 1)
        await record.append([a_dispatch()])
    await record.journal.close()


async def test_connections_that_are_all_busy_refuse_in_time(postgres_dsn: str) -> None:
    """One connection, which somebody has: the second use is refused, the third finds it free."""
    connections = Connections(postgres_dsn, 1, ConnectionTimeouts(connect=0.5))
    began, go_on = asyncio.Event(), asyncio.Event()

    async def holds(_: object) -> None:
        began.set()
        await go_on.wait()

    async def asks(connection: Any) -> Any:
        return await connection.fetchval("select 1")

    assert await connections.run(asks) == 1
    holding = asyncio.ensure_future(connections.run(holds))
    await began.wait()
    with pytest.raises(StoreUnavailable, match="busy"):
        await connections.run(asks)
    go_on.set()
    await holding
    assert await connections.run(asks) == 1
    connections.close()
    with pytest.raises(StoreUnavailable):
        await connections.run(asks)


async def test_a_connection_that_breaks_between_two_messages_of_a_statement_is_lost_as_any_other(
    postgres_dsn: str,
) -> None:
    """What the driver then raises is no error of the interface: it must not get past the border as a defect of ours."""
    connections = Connections(postgres_dsn, 1, ConnectionTimeouts())

    async def breaks(_: object) -> None:
        raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")

    with pytest.raises(ConnectionLost):
        await connections.run(breaks)
    connections.close()
