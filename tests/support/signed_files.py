"""A record in a database with its second place, as a sidecar leaves them, and what an attacker does to the files."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from sidecar.adapters.checkpoints import CheckpointFile, read_or_make_signer
from sidecar.adapters.record_postgresql import PostgresJournal, open_postgres_journal
from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.core.identifiers import InstanceId, Principal
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.operations.record.checkpoint_ports import AuditChain
from sidecar.operations.record.checkpoints import Checkpointing
from sidecar.operations.record.erase_user import EraseUser
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projector import Projector
from sidecar.operations.record.retention import Retention
from sidecar.operations.record.rows_in_memory import RowsInMemory
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import BEGIN, a_whole_turn
from tests.support.second_place import INTERVAL, RULES, Anomalies, SettableClock
from tests.support.tampering import PostgresTampering, SqliteTampering, Tampering

RECORD, LINES, KEY, PUBLIC, DSN = "record.db", "checkpoints.jsonl", "checkpoint.key", "checkpoint.key.pub", "dsn"


def signing(journal: Journal, folder: Path, audit: AuditChain | None = None) -> Checkpointing:
    """Return what signs the running roots of a journal, and the audit of rollouts, in the second place of a folder."""
    place = CheckpointFile(folder / LINES, read_or_make_signer(folder / KEY), lambda *_: None)
    at = SettableClock(), Anomalies()
    return Checkpointing(journal, journal.instance, place, INTERVAL, *at, audit)  # type: ignore[arg-type]  # one method of it


async def _journal(folder: Path, instance: InstanceId) -> SqliteJournal | PostgresJournal:
    """Open the record of a folder: the database that its file `dsn` names, or a SQLite file."""
    if (folder / DSN).exists():
        return await open_postgres_journal((folder / DSN).read_text(encoding="utf-8"), instance)
    return await SqliteJournal.open(folder / RECORD, instance, lambda what, error: None)


async def opened_for_anything(folder: Path) -> Tampering:
    """Open the record of a folder without its triggers."""
    if (folder / DSN).exists():
        return await PostgresTampering.opened((folder / DSN).read_text(encoding="utf-8"))
    return SqliteTampering(folder / RECORD)


@asynccontextmanager
async def written(folder: Path, turns: Sequence[int], instance: str = "first") -> AsyncIterator[OpenedRecord]:
    """Yield a record that is open: whole turns of two children each, ten seconds apart, each with a checkpoint."""
    journal = await _journal(folder, InstanceId(instance))
    try:
        record, looks = OpenedRecord(journal), signing(journal, folder)
        for number in turns:
            await record.append(a_whole_turn(f"turn-{number}", ("shop", "rewards"), at=10 * number))
            await looks.look()
        yield record
    finally:
        await journal.close()


async def write(folder: Path, turns: Sequence[int], instance: str = "first") -> None:
    """Write the same, and close it."""
    async with written(folder, turns, instance):
        pass


async def shorten(folder: Path, days: float, key: str = KEY, lines: str = LINES) -> int:
    """Remove what is older than 90 days so many days after the beginning; return how many turns."""
    signer = read_or_make_signer(folder / key)
    async with written(folder, [], "shortening") as record:
        place = CheckpointFile(folder / lines, signer, lambda *_: None)
        now, anomalies = SettableClock(BEGIN + timedelta(days=days)), Anomalies()
        with_whom = (RULES, signer, place, now, anomalies)
        retention = Retention(record.journal, *with_whom)  # type: ignore[arg-type]  # one method of it
        await retention.remove()
        assert anomalies.kinds == []
        return retention.turns


async def erase(folder: Path, key: str = KEY, lines: str = LINES) -> None:
    """Erase the texts of `user-1`."""
    async with written(folder, [], "erasing") as record:
        signer = read_or_make_signer(folder / key)
        place = CheckpointFile(folder / lines, signer, lambda *_: None)
        projector = Projector(record.journal, RowsInMemory(), MeasuringRecorder(Metrics()))
        operation = EraseUser(
            record.journal,
            record.journal.instance,
            projector,
            NoConversations(),
            signer,
            place,
            SettableClock(),
            CountedIds(),
        )
        told = [each async for each in operation(Principal("user-1"), preview=False)]
        assert told[-1].done


@dataclass
class NoConversations:
    """None are kept."""

    async def erase(self, principal: Principal) -> int:
        """Remove nothing."""
        return 0


@dataclass
class CountedIds:
    """Numbers."""

    made: int = 0

    def new(self, kind: str) -> str:
        """Return the next one."""
        self.made += 1
        return f"{kind}-{self.made}"


def change_lines(folder: Path, old: bytes, new: bytes) -> None:
    """Replace something in the file of checkpoints."""
    content = (folder / LINES).read_bytes()
    assert old in content
    (folder / LINES).write_bytes(content.replace(old, new))
