"""A record in a SQLite file with its second place, as a sidecar leaves them, and what an attacker does to the file."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import apsw

from sidecar.adapters.checkpoints import CheckpointFile, read_or_make_signer
from sidecar.adapters.record_sqlite import SqliteRecord
from sidecar.core.identifiers import InstanceId
from sidecar.operations.record.checkpoints import Checkpointing
from sidecar.operations.record.retention import Retention
from tests.support.record_builders import BEGIN, a_whole_turn
from tests.support.second_place import INTERVAL, RULES, Anomalies, SettableClock

RECORD, LINES, KEY, PUBLIC = "record.db", "checkpoints.jsonl", "checkpoint.key", "checkpoint.key.pub"


@asynccontextmanager
async def written(folder: Path, turns: Sequence[int], instance: str = "first") -> AsyncIterator[SqliteRecord]:
    """Yield a record that is open: whole turns of two children each, ten seconds apart, each with a checkpoint."""
    record = await SqliteRecord.open(folder / RECORD, InstanceId(instance), lambda what, error: None)
    try:
        place = CheckpointFile(folder / LINES, read_or_make_signer(folder / KEY), lambda *_: None)
        at = SettableClock(), Anomalies()
        looks = Checkpointing(record, record.instance, place, INTERVAL, *at)  # type: ignore[arg-type]  # one method of it
        for number in turns:
            await record.commit(a_whole_turn(f"turn-{number}", ("shop", "rewards"), at=10 * number))
            await looks.look()
        yield record
    finally:
        await record.close()


async def write(folder: Path, turns: Sequence[int], instance: str = "first") -> None:
    """Write the same, and close it."""
    async with written(folder, turns, instance):
        pass


async def shorten(folder: Path, days: float, key: str = KEY, lines: str = LINES) -> int:
    """Remove what is older than 90 days so many days after the beginning; return how many children."""
    signer = read_or_make_signer(folder / key)
    async with written(folder, [], "shortening") as record:
        place = CheckpointFile(folder / lines, signer, lambda *_: None)
        now, anomalies = SettableClock(BEGIN + timedelta(days=days)), Anomalies()
        retention = Retention(record, RULES, signer, place, now, anomalies)  # type: ignore[arg-type]  # one method of it
        await retention.remove()
        assert anomalies.kinds == []
        return retention.children


def attack(folder: Path, *statements: str) -> None:
    """Change rows as somebody who may write the file can: the triggers are dropped first."""
    connection = apsw.Connection(str(folder / RECORD))
    try:
        for name in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name[0]}")
        for statement in statements:
            connection.execute(statement)
            assert connection.changes(), f"changed nothing: {statement}"
    finally:
        connection.close()


def change_lines(folder: Path, old: bytes, new: bytes) -> None:
    """Replace something in the file of checkpoints."""
    content = (folder / LINES).read_bytes()
    assert old in content
    (folder / LINES).write_bytes(content.replace(old, new))
