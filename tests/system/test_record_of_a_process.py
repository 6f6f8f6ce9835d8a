from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sidecar.adapters.record_memory import MemoryJournal
from sidecar.adapters.system import OwnedTasks, SystemClock, SystemIds
from sidecar.composition.record.open_record import ObservedStore, RecordDependencies, opened_record
from sidecar.composition.running import running_sidecar
from sidecar.core.errors import StoreUnavailable
from sidecar.core.journal.appends import TurnAppend
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.settings import SettingsProblem, read_settings
from sidecar.settings.record import RecordSettings
from tests.support.record_builders import an_end
from tests.support.recording.translation import drafts_of
from tests.support.sidecar_process import place, settings_file

pytestmark = pytest.mark.system


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own, with definitions."""
    with place() as path:
        yield path


def around() -> RecordDependencies:
    """Return real surroundings."""
    recorder = MeasuringRecorder(Metrics())
    return RecordDependencies(SystemClock(), SystemIds(), OwnedTasks(lambda name, error: None), recorder, Redactor())


class FullDisk(MemoryJournal):
    """Keeps nothing while it is `full`."""

    full = True

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Append, or refuse."""
        if self.full:
            raise StoreUnavailable("cannot write: the disk is full")
        return await super().append(appends)


async def test_the_record_is_shown_where_readiness_is(folder: Path) -> None:
    """The file that the settings name is open; each start has an id of its own."""
    settings = read_settings(settings_file(folder), {})
    for _ in range(2):
        async with running_sidecar(settings) as sidecar:
            shown = sidecar.readiness.detail()["record"]
            assert (shown["database"], shown["writable"]) == ("sqlite", True)
            assert sidecar.readiness.ready
    assert settings.record.sqlite.path.is_file()


async def test_a_record_that_cannot_be_opened_stops_the_start(folder: Path) -> None:
    """It says which setting, which file and what to do."""
    settings = read_settings(settings_file(folder), {})
    settings.record.sqlite.path.parent.mkdir()
    settings.record.sqlite.path.write_bytes(b"no database " * 100)
    with pytest.raises(SettingsProblem, match=r"record\.sqlite: .*restore a backup"):
        async with running_sidecar(settings):
            pass


async def test_what_keeps_the_record_from_being_written_is_shown_until_it_is_over() -> None:
    """Why and since when; gone with the next append that is kept."""
    database = FullDisk()
    store = ObservedStore(database, around())
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.append(drafts_of(an_end(), store.instance))
    assert store.trouble == "cannot write: the disk is full"
    assert store.since is not None
    await store.append([])
    assert store.trouble, "nothing was written"
    database.full = False
    await store.append(drafts_of(an_end(), store.instance))
    assert store.trouble == ""
    assert store.since is None


async def test_a_record_in_memory_needs_no_file() -> None:
    """Nothing is waited for."""
    async with opened_record(RecordSettings(database="memory"), around()) as record:
        assert record.store.waits is False
        assert record.lease.held()


@pytest.mark.parametrize(
    "more", ["", 'dsn_file = "x"\ndsn = "postgresql://user:secret@host/name"'], ids=["no address", "two addresses"]
)
def test_postgresql_needs_one_address(folder: Path, more: str) -> None:
    """And the address is in no message."""
    said = f'[record]\ndatabase = "postgresql"\n[record.postgresql]\n{more}\n'
    with pytest.raises(SettingsProblem) as problem:
        read_settings(settings_file(folder, said), {})
    assert "give exactly one" in str(problem.value)
    assert "secret" not in str(problem.value)
