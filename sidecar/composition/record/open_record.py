"""Opens the record that the settings choose, makes a store of it, and shows whether it can be written."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from sidecar.adapters.migrations import DatabaseHeld, DatabaseProblem
from sidecar.adapters.system import SecretFileProblem, read_secret
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import EpisodeId, InstanceId, Slot
from sidecar.observability.redaction import Redactor
from sidecar.operations.ports import Clock, Ids, Recorder, Spawner
from sidecar.operations.record.group_commit import GroupCommitStore
from sidecar.operations.record.lease import Lease
from sidecar.operations.record.ports import CommitUnknown, Database, Store
from sidecar.operations.rollout.audit.retention import RolloutArchive
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.rpc.socket_files import AddressHeld
from sidecar.settings import SettingsProblem
from sidecar.settings.record import PostgresRecordSettings, RecordSettings, SqliteRecordSettings

EPISODES: Final = (
    "SELECT episode_id, episode_id FROM routing_records WHERE called = 1 AND episode_id > ?"
    " GROUP BY episode_id ORDER BY episode_id LIMIT ?"
)
"""Those with a turn on record that called anything."""
LISTEN_AGAIN: Final = 1.0
"""Seconds."""
SHORTEST_DSN: Final = 13
"""Characters of `postgresql://`."""

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


class KeptRollouts(RolloutStore, RolloutArchive, Protocol):
    """Rollouts, and what retention needs of them."""


Opened = tuple[Database, Lease, KeptRollouts, Sequence[Loop], "Episodes | None"]


@runtime_checkable
class ClosesItself(Protocol):
    """A store with connections of its own."""

    async def close(self) -> None:
        """Give everything back."""


class Surroundings(Struct, frozen=True):
    """What a record needs of the process."""

    clock: Clock
    ids: Ids
    spawner: Spawner
    recorder: Recorder
    redactor: Redactor


class OpenRecord(Struct, frozen=True):
    """The record of a running sidecar.

    Attributes:
        database: below the store; both are one for the record in memory.
        lease: whether this process may still act on what it owns on record.
        rollouts: in the same database.
        loops: to be kept running, by name.
        show: what `/readyz` says of it.
    """

    store: Store
    database: Database
    lease: Lease
    rollouts: KeptRollouts
    loops: Sequence[Loop]
    show: Callable[[], Mapping[str, Any]]


class Episodes(Protocol):
    """What is known of the episodes on a record that no other process writes to."""

    def note(self, key: str, /) -> None:
        """Take note of an episode before a turn of it is written."""

    def lacks(self, key: str, /) -> bool:
        """Say whether an episode certainly has no turn on record."""


class ShownStore(GroupCommitStore):
    """A store that knows whether the last append was kept.

    Attributes:
        trouble: why not; empty if it was.

    Args:
        episodes: knows of most episodes without a turn on record that they have none; None: the database is asked.
    """

    def __init__(self, database: Database, around: Surroundings, episodes: "Episodes | None" = None) -> None:
        """Begin without trouble."""
        super().__init__(database, around.spawner, around.recorder, shared=episodes is None)
        self._clock = around.clock
        self._episodes = episodes
        self.trouble = ""
        self.since: datetime | None = None

    async def append(self, records: Sequence[Record]) -> None:
        """Append, and remember how that went."""
        if self._episodes is not None:
            for record in records:
                if isinstance(record, RoutingRecord):
                    self._episodes.note(record.episode_id)
        try:
            await super().append(records)
        except StoreUnavailable as refused:
            self.since = self.since or self._clock.now()
            self.trouble = refused.message
            raise
        if records:  # nothing to append only waits for what came before, and proves nothing
            self.trouble, self.since = "", None

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots of the episode's last turn that called any."""
        if self._episodes is not None and self._episodes.lacks(episode_id):
            return ()
        return await super().last_dispatching_turn(episode_id)


@asynccontextmanager
async def opened_record(said: RecordSettings, around: Surroundings) -> AsyncIterator[OpenRecord]:
    """Open the record, and close it when everything that may write to it is over.

    Raises:
        AddressHeld: another process has it.
        SettingsProblem: it cannot be opened; says why and what to do.
    """
    if said.database == "memory":
        from sidecar.adapters.record_memory import MemoryStore  # noqa: PLC0415  what is not chosen is not loaded
        from sidecar.adapters.rollout_memory import MemoryRollouts  # noqa: PLC0415  the same holds

        memory = MemoryStore()
        lease = Lease(memory, None, clock=around.clock, recorder=around.recorder)
        yield OpenRecord(
            memory, memory, lease, MemoryRollouts(around.clock), (), lambda: {"database": "memory", "writable": True}
        )
        return
    instance = InstanceId(around.ids.new("sidecar"))
    database, lease, rollouts, loops, episodes = await _open(said, instance, around)
    try:
        store = ShownStore(database, around, episodes)
        yield OpenRecord(store, database, lease, rollouts, loops, lambda: _shown(said.database, store))
    finally:
        if isinstance(rollouts, ClosesItself):
            await rollouts.close()
        await database.close()


async def _open(said: RecordSettings, instance: InstanceId, around: Surroundings) -> Opened:
    try:
        if said.database == "sqlite":
            return await _sqlite(said.sqlite, instance, around)
        return await _postgresql(said.postgresql, instance, around)
    except DatabaseHeld as problem:
        raise AddressHeld(f"record.{said.database}: {problem}") from None
    except (DatabaseProblem, SecretFileProblem, StoreUnavailable) as problem:
        raise SettingsProblem([f"record.{said.database}: {problem}"]) from None
    except CommitUnknown:
        raise SettingsProblem([f"record.{said.database}: the disk does not confirm what is written"]) from None


async def _sqlite(said: SqliteRecordSettings, instance: InstanceId, around: Surroundings) -> Opened:
    from sidecar.adapters.record_sqlite import SqliteRecord  # noqa: PLC0415  what is not chosen is not loaded
    from sidecar.adapters.rollout_sqlite import SqliteRollouts  # noqa: PLC0415  the same holds
    from sidecar.adapters.sqlite.known_keys import KnownKeys  # noqa: PLC0415  the same holds

    def report(doing: str, error: str) -> None:
        around.recorder.anomaly("record_disk", f"could not {doing}: {error}")

    record = await SqliteRecord.open(said.path, instance, report)
    rollouts = SqliteRollouts(record.engine, instance, around.clock)
    episodes = KnownKeys(EPISODES, "")
    around.spawner.spawn(episodes.load(record.engine), "load known episodes")
    return record, Lease(record, None, clock=around.clock, recorder=around.recorder), rollouts, (), episodes


async def _postgresql(said: PostgresRecordSettings, instance: InstanceId, around: Surroundings) -> Opened:
    try:  # the library is an extra; nothing of it is loaded unless it is chosen
        from sidecar.adapters.postgresql import Limits  # noqa: PLC0415  its library is an extra
        from sidecar.adapters.record_postgresql import open_postgres_record  # noqa: PLC0415  the same holds
        from sidecar.adapters.record_postgresql.record import RecordOptions  # noqa: PLC0415  the same holds
        from sidecar.adapters.rollout_postgresql import PostgresRollouts  # noqa: PLC0415  the same holds
    except ModuleNotFoundError:
        raise DatabaseProblem("needs the extra: pip install 'dispatch-sidecar[postgresql]'") from None
    dsn = dsn_of(said, around.redactor)
    limits = Limits(said.connect_timeout.total_seconds(), said.statement_timeout.total_seconds())
    options = RecordOptions(limits, said.lease, anomaly=around.recorder.anomaly)
    record = await open_postgres_record(dsn, instance, options)
    lease = Lease(record, said.lease.total_seconds(), clock=around.clock, recorder=around.recorder)
    rollouts = PostgresRollouts(dsn, instance, record.limits)
    heard = [("record changes", record.listen), ("rollout changes", rollouts.listen)]
    loops = [("lease", lease.run), *((name, _heard(listen, around)) for name, listen in heard)]
    return record, lease, rollouts, loops, None


def _heard(
    listen: Callable[[], Coroutine[Any, Any, None]], around: Surroundings
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return what listens again and again: a database that is away is no reason to take no turns."""

    async def run() -> None:
        while True:
            try:
                await listen()
            except StoreUnavailable:
                around.recorder.anomaly("record_changes_unheard", "the database does not answer")
            await asyncio.sleep(LISTEN_AGAIN)

    return run


def dsn_of(said: PostgresRecordSettings, redactor: Redactor) -> str:
    """Return the address of the database, which the log must not show. Raises `SecretFileProblem`."""
    if said.dsn is not None:
        dsn = said.dsn.reveal()
    elif said.dsn_file is not None:
        dsn = read_secret(said.dsn_file, SHORTEST_DSN)
    else:
        raise SettingsProblem(["record.postgresql: give `dsn_file`, or `dsn` by its variable"])
    password = urlsplit(dsn).password or ""
    redactor.learn([dsn, *(each for each in (password, unquote(password)) if each)])
    return dsn


def _shown(database: str, store: ShownStore) -> Mapping[str, Any]:
    shown: dict[str, Any] = {"database": database, "writable": not store.trouble, "commits": store.batches}
    if store.since is not None:
        shown |= {"why": store.trouble, "since": store.since.isoformat()}
    return shown
