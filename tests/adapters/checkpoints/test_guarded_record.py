"""A record, its checkpoints and its retention joined as a process joins them."""

from pathlib import Path

import pytest

from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.adapters.system import SystemClock, SystemIds
from sidecar.adapters.system.tasks import OwnedTasks
from sidecar.composition.record.checkpoints import guarded_record
from sidecar.composition.record.open_record import RecordDependencies
from sidecar.core.identifiers import InstanceId
from sidecar.core.verifying.checkpoint_lines import line_from
from sidecar.observability import names
from sidecar.observability.exposition import exposition
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.settings import SettingsProblem
from sidecar.settings.record import RecordSettings, SqliteRecordSettings
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import a_whole_turn
from tests.support.requirement import requirement


def shown(metrics: Metrics) -> str:
    """Return what a scraper reads."""
    return exposition(metrics, "")[0].decode()


@requirement("SX-38")
async def test_what_was_closed_last_is_signed_at_the_stop(tmp_path: Path) -> None:
    """No loop ever ran; the checkpoint is there, the metrics and their zeros too."""
    said = RecordSettings(sqlite=SqliteRecordSettings(path=tmp_path / "record.db"))
    record = await SqliteJournal.open(said.sqlite.path, InstanceId("first"), lambda what, error: None)
    metrics = Metrics()
    try:
        around = _around(metrics)
        rollouts, readiness = MemoryRollouts(around.clock), Readiness(lambda _: None)
        async with guarded_record(said, record, rollouts, around, metrics, readiness) as loops:
            assert [name for name, _ in loops] == ["checkpointing", "retention", "audit retention", "checkpoint key"]
            await OpenedRecord(record).append(a_whole_turn("turn-1"))
            assert f'{_plain(names.CHECKPOINTS)}{{result="written"}} 0.0' in shown(metrics)
    finally:
        await record.close()

    (text,) = (tmp_path / "checkpoints" / "checkpoints.jsonl").read_bytes().splitlines()
    line = line_from(text)
    assert line is not None
    assert (line.instance, line.number) == ("first", 3)
    page = shown(metrics)
    assert f'{_plain(names.CHECKPOINTS)}{{result="written"}} 1.0' in page
    assert f"{_plain(names.CHECKPOINT_WAITING)} 0.0" in page
    assert f'{_plain(names.RECORD_PURGED)}{{kind="turn"}} 0.0' in page
    assert f"{_plain(names.AUDIT_REMOVED)} 0.0" in page


async def test_a_key_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """With the name of the setting."""
    said = RecordSettings(sqlite=SqliteRecordSettings(path=tmp_path / "record.db"))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "checkpoint.key").write_text("no key")
    (tmp_path / "checkpoints" / "checkpoint.key").chmod(0o600)
    record = await SqliteJournal.open(said.sqlite.path, InstanceId("first"), lambda what, error: None)
    around = _around(Metrics())
    rollouts, readiness = MemoryRollouts(around.clock), Readiness(lambda _: None)
    try:
        with pytest.raises(SettingsProblem, match=r"record\.checkpoints\.key_file: .* holds no unencrypted Ed25519"):
            async with guarded_record(said, record, rollouts, around, Metrics(), readiness):
                pass
    finally:
        await record.close()


def _around(metrics: Metrics) -> RecordDependencies:
    tasks = OwnedTasks(lambda name, error: None)
    return RecordDependencies(SystemClock(), SystemIds(), tasks, MeasuringRecorder(metrics), Redactor())


def _plain(name: str) -> str:
    return name.replace(".", "_")
