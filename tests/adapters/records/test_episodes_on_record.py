"""Whether an episode has a turn on record is asked of the database only where this process cannot know that."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from sidecar.adapters.record_sqlite.journal import EPISODES
from sidecar.adapters.record_sqlite.schema import record_schema
from sidecar.adapters.sqlite.known_keys import PAGE, KnownKeys
from sidecar.adapters.system import OwnedTasks, SystemClock, SystemIds
from sidecar.composition.record.open_record import RecordDependencies, opened_record
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import EpisodeId
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.operations.record.ports import Store
from sidecar.settings.record import PostgresRecordSettings, RecordSettings, SqliteRecordSettings
from tests.support.record_builders import a_whole_turn
from tests.support.recording.translation import drafts_of
from tests.support.sqlite_statements import heard_statements

OLD, NEW = EpisodeId("old"), EpisodeId("new")


@asynccontextmanager
async def store_of(said: RecordSettings) -> AsyncIterator[Store]:
    """Open a record as a process does, when it has read which episodes are there."""
    tasks = OwnedTasks(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    around = RecordDependencies(SystemClock(), SystemIds(), tasks, MeasuringRecorder(Metrics()), Redactor())
    async with opened_record(said, around) as record:
        assert await tasks.ended(10)
        yield record.store


def sqlite(folder: Path) -> RecordSettings:
    """Say where the file is."""
    return RecordSettings(database="sqlite", sqlite=SqliteRecordSettings(path=folder / "record.sqlite"))


async def test_a_new_episode_costs_no_read_and_a_known_one_is_read(tmp_path: Path) -> None:
    """In SQLite: before and after a turn of the episode, and after a restart, which reads what is there once."""
    with heard_statements() as heard:
        async with store_of(sqlite(tmp_path)) as store:
            await store.append(drafts_of(a_whole_turn("turn-1", ("shop",), episode_id=OLD), store.instance))
            heard.clear()
            assert await store.last_dispatching_turn(NEW) == ()
            assert heard == []
            assert await store.last_dispatching_turn(OLD) == ("shop",)
        async with store_of(sqlite(tmp_path)) as store:
            heard.clear()
            assert await store.last_dispatching_turn(NEW) == ()
            assert heard == []
            assert await store.last_dispatching_turn(OLD) == ("shop",)
            assert heard != []


async def test_the_other_replica_sees_a_turn_at_once(postgres_dsn: str, tmp_path: Path) -> None:
    """In PostgreSQL no process can know that an episode is new: what another one has written is found."""
    (tmp_path / "dsn").write_text(postgres_dsn)
    (tmp_path / "dsn").chmod(0o600)
    said = RecordSettings(database="postgresql", postgresql=PostgresRecordSettings(dsn_file=tmp_path / "dsn"))
    async with store_of(said) as first, store_of(said) as second:
        assert (first.shared, second.shared) == (True, True)
        assert await second.last_dispatching_turn(OLD) == ()
        await first.append(drafts_of(a_whole_turn("turn-1", ("shop",), episode_id=OLD), first.instance))
        assert await second.last_dispatching_turn(OLD) == ("shop",)


class Pages:
    """Stands in for a file: gives keys a page at a time."""

    def __init__(self, keys: int, between: Callable[[], None], fails_after: int | None = None) -> None:
        self._left = [(number, f"key-{number}") for number in range(1, keys + 1)]
        self._between, self._fails_after, self.pages = between, fails_after, 0

    async def read(self, work: Callable[[Any], Any]) -> Any:
        """Do `work` on this."""
        if self.pages == self._fails_after:
            raise StoreUnavailable("cannot read: the disk does not read or write")
        self.pages += 1
        found = work(self)
        self._between()
        return found

    def execute(self, pages: str, after: tuple[int, int]) -> "Pages":
        """Take the statement."""
        self._after, self._most = after
        return self

    def fetchall(self) -> list[tuple[int, str]]:
        """Return the page."""
        return [row for row in self._left if row[0] > self._after][: self._most]


@pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE])
async def test_every_key_of_every_page_is_known(count: int) -> None:
    """None is lacking, whether pages are full or not; what is not there mostly is."""
    known = KnownKeys("", 0)
    file: Any = Pages(count, lambda: None)
    await known.load(file)
    assert not any(known.lacks(f"key-{number}") for number in range(1, count + 1))
    assert sum(known.lacks(f"other-{number}") for number in range(1000)) >= 999


async def test_nothing_is_lacking_while_the_file_is_read_and_what_comes_meanwhile_is_known() -> None:
    """Keys that are written between two pages may be before the place that was read."""
    known = KnownKeys("", 0)
    seen: list[bool] = []

    def between() -> None:
        seen.append(known.lacks("new"))
        known.note("written meanwhile")

    file: Any = Pages(PAGE, between)
    await known.load(file)
    assert seen == [False, False]
    assert (known.lacks("written meanwhile"), known.lacks("new")) == (False, True)
    known.note("new")
    assert not known.lacks("new")


async def test_a_file_that_could_not_be_read_whole_is_asked_for_every_key() -> None:
    """Half a table says nothing of what is not there."""
    known = KnownKeys("", 0)
    file: Any = Pages(2 * PAGE, lambda: None, fails_after=1)
    await known.load(file)
    known.note("written later")
    assert not known.lacks("new")


def test_the_keys_are_read_from_an_index_in_its_order() -> None:
    """A record of years is read at each start: a page must not cost a look through all of it."""
    plan = plan_of(EPISODES)
    assert "USING COVERING INDEX" in plan
    assert "TEMP B-TREE" not in plan


def plan_of(statement: str) -> str:
    """Return how SQLite goes about a statement."""
    connection = apsw.Connection(":memory:")
    for migration in record_schema().migrations:
        connection.execute(migration.sql)
    return " ".join(str(row) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", ("", PAGE)))
