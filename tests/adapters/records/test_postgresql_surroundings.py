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

from sidecar.adapters.postgresql import ConnectionLost, Connections, Limits, behind_transaction_pooler, shown, upgrade
from sidecar.adapters.record_postgresql import SCHEMA, RecordOptions, open_postgres_record
from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.executing.stored_record import RetentionMarker
from sidecar.core.identifiers import InstanceId
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


@requirement("SX-38")
async def test_the_documented_role_appends_and_reads_and_can_do_nothing_else(postgres_dsn: str) -> None:
    """Not change, not remove, not switch the triggers off, not purge."""
    await upgrade(postgres_dsn, SCHEMA, Limits())
    async with role(postgres_dsn, ROLES + POOLERS) as dsn:
        record = await open_postgres_record(dsn, InstanceId("one"))
        await record.commit(a_whole_turn())
        assert len([child async for child in record.children()]) == 1
        with pytest.raises(StoreUnavailable, match="lacks a right"):
            await record.purge_frames(moment(1000))
        with pytest.raises(StoreUnavailable, match="lacks a right"):
            await record.purge_childless(moment(1000))
        await record.close()
        async with bare(dsn) as connection:
            for statement in (
                "update sub_agents set context_json = '{}'",
                "delete from sub_agent_events",
                "truncate sub_agent_events",
                "set session_replication_role = replica",
                "alter table sub_agent_events disable trigger all",
                "set sidecar.purging = 'on'; delete from sub_agent_events",
                "select record_forget('{turn-1}')",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(statement)


async def test_the_documented_right_lets_a_sidecar_remove_what_a_marker_covers(postgres_dsn: str) -> None:
    """And nothing else; the same marker again changes nothing."""
    await upgrade(postgres_dsn, SCHEMA, Limits())
    async with role(postgres_dsn, ROLES + RETENTION) as dsn:
        record = await open_postgres_record(dsn, InstanceId("one"))
        await record.commit(a_whole_turn("turn-1"))
        await record.commit(a_whole_turn("turn-2", at=500))
        (state,) = await record.purgeable(moment(100))
        marker = RetentionMarker(state.instance, state.number, state.root, moment(100), moment(999), "key", "signed")
        assert await record.purge([marker]) == 1
        assert await record.purge([marker]) == 0
        with pytest.raises(RecordConflict):
            await record.purge([RetentionMarker(state.instance, 2, "0" * 64, moment(1), moment(2), "key", "signed")])
        assert [child.opened.turn_id async for child in record.children()] == ["turn-2"]
        assert list(await record.markers()) == [marker]
        await record.close()


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
    options = RecordOptions(anomaly=lambda kind, _detail: told.append(kind))
    assert not await behind_transaction_pooler(postgres_dsn, Limits())
    pooler = TransactionPooler(postgres)
    listening = await asyncio.start_unix_server(pooler.carry, short_folder / f".s.PGSQL.{PORT}")
    record = await open_postgres_record(
        postgres_dsn.replace(str(postgres.folder), str(short_folder)), InstanceId("one"), options
    )
    try:
        assert told == ["transaction_pooler"]
        await record.commit(a_whole_turn())
        assert len([child async for child in record.children()]) == 1
    finally:
        await record.close()
        listening.close()
        await pooler.ended()
        await listening.wait_closed()


async def test_a_server_that_is_not_there_is_named_without_secrets(short_folder: Path) -> None:
    """Nobody listens at the address."""
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await open_postgres_record(f"postgresql://u:hidden@/d?host={short_folder}", InstanceId("one"))
    assert shown("postgresql://u:hidden@db.example:5433/records") == "PostgreSQL database records at db.example:5433"


async def test_a_row_that_somebody_holds_is_not_waited_for_without_end(postgres_dsn: str) -> None:
    """The lock's limit ends it: nothing is kept, and everything goes on once the row is free."""
    options = RecordOptions(limits=Limits(lock=0.1))
    record = await open_postgres_record(postgres_dsn, InstanceId("one"), options)
    await record.commit([a_dispatch()])
    async with bare(postgres_dsn) as other:
        async with other.transaction():
            await other.execute("select from turns for update")
            with pytest.raises(StoreUnavailable, match="holds a lock"):
                await record.commit([a_dispatch(dispatch="second")])
        await record.commit([a_dispatch(dispatch="second")])
    await record.close()


async def test_a_statement_that_takes_too_long_is_ended_by_the_server(postgres_dsn: str) -> None:
    """It gives up before we do, so that it is certain that nothing was kept."""
    options = RecordOptions(limits=Limits(statement=0.5))
    record = await open_postgres_record(postgres_dsn, InstanceId("one"), options)
    async with bare(postgres_dsn) as other:
        async with other.transaction():
            await other.execute("lock table turns in access exclusive mode")
            with pytest.raises(StoreUnavailable, match="took too long"):
                await record.commit([a_dispatch()])
            with pytest.raises(StoreUnavailable, match="took too long"):
                await record.overdue_turns(moment(0), 1)
        await record.commit([a_dispatch()])
    await record.close()


async def test_connections_that_are_all_busy_refuse_in_time(postgres_dsn: str) -> None:
    """One connection, which somebody has: the second use is refused, the third finds it free."""
    connections = Connections(postgres_dsn, 1, Limits(connect=0.5))
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
    connections = Connections(postgres_dsn, 1, Limits())

    async def breaks(_: object) -> None:
        raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")

    with pytest.raises(ConnectionLost):
        await connections.run(breaks)
    connections.close()
