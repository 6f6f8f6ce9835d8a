"""Opens the record (all that is stored durably about turns) that the settings select, and reports whether it works."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from sidecar.adapters.migrations import DatabaseHeld, DatabaseProblem
from sidecar.adapters.system import SecretFileProblem, read_secret
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.encoding import SALT_BYTES
from sidecar.core.journal.entries import Draft
from sidecar.observability import call_names, names
from sidecar.observability.metrics import Histogram, Metrics
from sidecar.observability.redaction import Redactor
from sidecar.operations.ports import Clock, Ids, Recorder, Spawner
from sidecar.operations.record.checkpoint_ports import AuditChain
from sidecar.operations.record.journal_store import JournalStore
from sidecar.operations.record.lease import Lease
from sidecar.operations.record.lists import TurnListReader
from sidecar.operations.record.ports import CommitUnknown, Journal, Store
from sidecar.operations.record.projector import Projector
from sidecar.operations.rollout.audit.retention import RolloutArchive
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.rpc.socket_files import AddressInUse
from sidecar.settings import SettingsProblem
from sidecar.settings.record import PostgresRecordSettings, RecordSettings, SqliteRecordSettings

LISTEN_AGAIN: Final = 1.0
"""Seconds until the sidecar listens for changes again after the database has closed the connection."""
PROJECTING: Final = "projector"
"""The name of the projector's loop."""
APPEND_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
SLOW: Final = 0.5
"""Seconds after which an append counts as slow. A call waits for at least two appends: its start and its outcome."""
SHORTEST_DSN: Final = 13
"""The length of `postgresql://`: a shorter text in the file cannot be an address."""

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


class RolloutStoreHandle(RolloutStore, RolloutArchive, AuditChain, Protocol):
    """The rollouts, with the methods that retention and checkpoints need."""


class OpenDatabase(Struct, frozen=True):
    """A database that is open.

    Attributes:
        projector: keeps the rows of its lists up to date.
        closes: what must be closed before the journal, because it has its own files or connections.
    """

    journal: Journal
    lease: Lease
    rollouts: RolloutStoreHandle
    projector: Projector
    loops: Sequence[Loop] = ()
    closes: Sequence["SelfClosing"] = ()


class SelfClosing(Protocol):
    """An object with its own files or connections."""

    async def close(self) -> None:
        """Close all files and connections."""


def append_seconds(metrics: Metrics) -> Histogram:
    """Return the histogram of append durations."""
    return metrics.histogram(call_names.APPEND_SECONDS, "How long the record took for an append.", APPEND_BOUNDS)


class RecordDependencies(Struct, frozen=True):
    """The dependencies of a record on the process. `appends` is the histogram of append durations."""

    clock: Clock
    ids: Ids
    spawner: Spawner
    recorder: Recorder
    redactor: Redactor
    appends: Histogram = field(default_factory=lambda: append_seconds(Metrics()))


class OpenRecord(Struct, frozen=True):
    """The record of a running sidecar.

    Attributes:
        journal: the store appends to it.
        lease: whether this process may still write to the dispatches that it owns.
        rollouts: stored in the same database.
        loops: background loops by name; the supervisor keeps them running.
        show: returns the section of `/readyz`.
        attention: returns problems that an operator should look at, one sentence each.
        lists: the lists and the projector that updates them; None if each list projects the changes itself.
    """

    store: Store
    journal: Journal
    lease: Lease
    rollouts: RolloutStoreHandle
    loops: Sequence[Loop]
    show: Callable[[], Mapping[str, Any]]
    attention: Callable[[], Sequence[str]] = tuple
    lists: tuple[TurnListReader, Projector] | None = None


class ObservedStore(JournalStore):
    """A store of facts that also notes whether the last append succeeded, and how long it took.

    Attributes:
        trouble, since: why appends fail, and since when; empty and None if the last append succeeded.
        took: seconds of the last successful append.
    """

    def __init__(self, journal: Journal, dependencies: RecordDependencies, lists: TurnListReader | None = None) -> None:
        """Begin without trouble."""
        super().__init__(journal, dependencies.spawner, dependencies.recorder, partial(os.urandom, SALT_BYTES), lists)
        self._clock, self._appends = dependencies.clock, dependencies.appends
        self.trouble, self.took = "", 0.0
        self.since: datetime | None = None

    async def append(self, drafts: Sequence[Draft]) -> None:
        """Append, and store the result and the duration."""
        began = self._clock.monotonic()
        try:
            await super().append(drafts)
        except StoreUnavailable as refused:
            self.since = self.since or self._clock.now()  # of the first failure: repeated ones are one outage
            self.trouble = refused.message
            raise
        if drafts:  # an empty append only waits for earlier ones; its success says nothing about the database
            self.trouble, self.since = "", None
            self.took = self._clock.monotonic() - began
            self._appends.observe(self.took)

    def attention(self) -> Sequence[str]:
        """Return the problems of the record that an operator should know."""
        if self.trouble:
            return (f"the record cannot be written: {self.trouble}",)
        return (f"the record is slow: its last append took {self.took:.1f} s",) if self.took > SLOW else ()


@asynccontextmanager
async def opened_record(configured: RecordSettings, dependencies: RecordDependencies) -> AsyncIterator[OpenRecord]:
    """Open the record; close it at the end.

    The caller must first stop everything that may write to the record.

    Raises:
        AddressInUse: another process has the record open.
        SettingsProblem: the record cannot be opened; the text says why and what to do.
    """
    if configured.database == "memory":
        from sidecar.adapters.record_memory import MemoryStore  # noqa: PLC0415  what is not chosen is not loaded
        from sidecar.adapters.rollout_memory import MemoryRollouts  # noqa: PLC0415  the same holds

        memory = MemoryStore(recorder=dependencies.recorder)
        lease = Lease(memory.journal, None, clock=dependencies.clock, recorder=dependencies.recorder)
        yield OpenRecord(
            memory,
            memory.journal,
            lease,
            MemoryRollouts(dependencies.clock),
            (),
            lambda: {"database": "memory", "writable": True},
        )
        return
    # A new id for each start: the lease of an earlier process must expire, and is never reused.
    instance = InstanceId(dependencies.ids.new("sidecar"))
    opened = await _open(configured, instance, dependencies)
    try:
        lists = TurnListReader(opened.projector)
        store = ObservedStore(opened.journal, dependencies, lists)
        yield OpenRecord(
            store,
            opened.journal,
            opened.lease,
            opened.rollouts,
            [*opened.loops, (PROJECTING, opened.projector.run)],
            lambda: _shown(configured.database, store),
            store.attention,
            (lists, opened.projector),
        )
    finally:
        # The journal last: rollouts and the projector use its connections.
        for each in opened.closes:
            await each.close()
        await opened.journal.close()


async def _open(configured: RecordSettings, instance: InstanceId, dependencies: RecordDependencies) -> OpenDatabase:
    try:
        if configured.database == "sqlite":
            return await _sqlite(configured.sqlite, instance, dependencies)
        return await _postgresql(configured.postgresql, instance, dependencies)
    except DatabaseHeld as problem:
        raise AddressInUse(f"record.{configured.database}: {problem}") from None
    except (DatabaseProblem, SecretFileProblem, StoreUnavailable) as problem:
        raise SettingsProblem([f"record.{configured.database}: {problem}"]) from None
    except CommitUnknown:
        raise SettingsProblem([f"record.{configured.database}: the disk does not confirm what is written"]) from None


async def _sqlite(
    configured: SqliteRecordSettings, instance: InstanceId, dependencies: RecordDependencies
) -> OpenDatabase:
    from sidecar.adapters.record_sqlite import SqliteJournal, SqliteProjection  # noqa: PLC0415  only if it is chosen
    from sidecar.adapters.rollout_sqlite import SqliteRollouts  # noqa: PLC0415  the same holds

    def report(doing: str, error: str) -> None:
        dependencies.recorder.anomaly("record_disk", f"could not {doing}: {error}")

    journal = await SqliteJournal.open(configured.path, instance, report)
    dependencies.spawner.spawn(journal.load_episodes(), "load known episodes")  # delays no start
    rollouts = SqliteRollouts(journal.engine, instance, dependencies.clock)
    # No lease time: the lock on the file already guarantees that no other process owns a dispatch.
    lease = Lease(journal, None, clock=dependencies.clock, recorder=dependencies.recorder)
    projection = SqliteProjection(configured.path, report)
    return OpenDatabase(
        journal, lease, rollouts, Projector(journal, projection, dependencies.recorder), (), (projection,)
    )


async def _postgresql(
    configured: PostgresRecordSettings, instance: InstanceId, dependencies: RecordDependencies
) -> OpenDatabase:
    try:
        from sidecar.adapters.postgresql import ConnectionTimeouts  # noqa: PLC0415  its library is an extra
        from sidecar.adapters.record_postgresql import (  # noqa: PLC0415  the same holds
            JournalOptions,
            PostgresProjection,
            open_postgres_journal,
        )
        from sidecar.adapters.rollout_postgresql import PostgresRollouts  # noqa: PLC0415  the same holds
    except ModuleNotFoundError:
        raise DatabaseProblem("needs the extra: pip install 'dispatch-sidecar[postgresql]'") from None
    dsn = dsn_of(configured, dependencies.redactor)  # first: later errors of the driver may quote the address
    limits = ConnectionTimeouts(
        configured.connect_timeout.total_seconds(), configured.statement_timeout.total_seconds()
    )
    options = JournalOptions(limits, configured.lease, anomaly=dependencies.recorder.anomaly)
    journal = await open_postgres_journal(dsn, instance, options)
    lease = Lease(journal, configured.lease.total_seconds(), clock=dependencies.clock, recorder=dependencies.recorder)
    rollouts = PostgresRollouts(dsn, instance, journal.limits, journal.readers)
    loops = [("lease", lease.run), ("rollout changes", _listening_again(rollouts.listen, dependencies))]
    projection = PostgresProjection(dsn, instance, journal.limits)
    projector = Projector(journal, projection, dependencies.recorder)
    return OpenDatabase(journal, lease, rollouts, projector, loops, (projection, rollouts))


def _listening_again(
    listen: Callable[[], Coroutine[Any, Any, None]], dependencies: RecordDependencies
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return a loop that listens again after each failure. An unreachable database must not end the loop."""

    async def run() -> None:
        while True:
            try:
                await listen()
            except StoreUnavailable:
                dependencies.recorder.anomaly("record_changes_unheard", "the database does not answer")
            await asyncio.sleep(LISTEN_AGAIN)  # also after a normal return, i.e. a closed connection

    return run


def dsn_of(configured: PostgresRecordSettings, redactor: Redactor) -> str:
    """Return the address of the database, which the redactor learns. Raises `SecretFileProblem`."""
    if configured.dsn is not None:
        dsn = configured.dsn.reveal()
    elif configured.dsn_file is not None:
        dsn = read_secret(configured.dsn_file, SHORTEST_DSN)
    else:
        raise SettingsProblem(["record.postgresql: give `dsn_file`, or `dsn` by its variable"])
    # Drivers report the password on its own and decoded, so the redactor must know all forms.
    password = urlsplit(dsn).password or ""
    redactor.learn([dsn, *(each for each in (password, unquote(password)) if each)])
    return dsn


def _shown(database: str, store: ObservedStore) -> Mapping[str, Any]:
    shown: dict[str, Any] = {"database": database, "writable": not store.trouble, "commits": store.batches}
    if store.since is not None:
        shown |= {"why": store.trouble, "since": store.since.isoformat()}  # only while there is trouble
    return shown


def show_lists(metrics: Metrics, lists: TurnListReader, projector: Projector) -> None:
    """Report how many facts are not in the lists yet, and how many lists were incomplete."""
    metrics.gauge(names.PROJECTION_LAG, "Facts on record that lists do not have yet.", lambda: float(projector.lag))
    behind = "Lists that could not show everything, because too much had changed."
    metrics.counted_elsewhere(names.LISTS_BEHIND, behind, lambda: {(): float(lists.behind)})
