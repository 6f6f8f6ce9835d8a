"""Opens record and keys for `sidecar verify-log`, whether a sidecar has the record open or not."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from sidecar.adapters.checkpoints import KeyFileProblem, public_key_file, read_public_keys
from sidecar.adapters.migrations import DatabaseProblem
from sidecar.adapters.record_sqlite.offline import OfflineSqliteRecord
from sidecar.adapters.rollout_sqlite.offline import OfflineAudit
from sidecar.adapters.system import SecretFileProblem, read_secret
from sidecar.cli.record.source import RecordSource
from sidecar.cli.record.verify_log import Verifying
from sidecar.composition.record.checkpoints import checkpoint_files
from sidecar.composition.record.open_record import SHORTEST_DSN
from sidecar.core.identifiers import InstanceId
from sidecar.core.signatures import SignatureVerifier
from sidecar.operations.record.checkpoint_ports import AuditChain
from sidecar.operations.record.verify_log import RecordToVerify, RecordUnreadable
from sidecar.settings import Settings

READER: Final = InstanceId("verify-log")
"""The name of the command as a reader of the record. It appends nothing, so it is never recorded as a sidecar."""
LONGEST_ANSWER: Final = 60.0
"""Seconds that the database may take for one page of facts. Longer than a sidecar's limit: no user waits."""
NOWHERE: Final = (
    "say where the record is: --sqlite PATH, --postgresql-dsn-file PATH, or --config with a record that is kept"
)


def verifying() -> Verifying:
    """Return the dependencies of the command."""
    return Verifying(_open_record, _read_keys)


def record_source(settings: Settings) -> RecordSource:
    """Return the paths of the record and its checkpoints from the settings; none for a record in memory."""
    configured = settings.record
    if configured.database == "memory":
        return RecordSource()
    file, key_file = checkpoint_files(configured)
    signed = RecordSource(checkpoints=(file,), public_keys=(public_key_file(key_file),))
    if configured.database == "sqlite":
        return RecordSource(configured.sqlite.path).with_defaults_of(signed)
    dsn = configured.postgresql.dsn
    address = None if dsn is None else dsn.reveal()
    return RecordSource(None, configured.postgresql.dsn_file, signed.checkpoints, signed.public_keys, address)


@asynccontextmanager
async def _open_record(source: RecordSource) -> AsyncIterator[tuple[RecordToVerify, AuditChain]]:
    """Open the record at a place for reading. Raises `RecordUnreadable`."""
    try:
        if source.sqlite is not None:
            # Opened for reading only, without the lock, so that a running sidecar is not disturbed.
            with OfflineSqliteRecord.opened(source.sqlite) as record:
                yield record, OfflineAudit(record.read)
            return
        # The file wins over the address: a command line can name a file, but must contain no password.
        dsn = source.postgresql_dsn
        if source.postgresql_dsn_file is not None:
            dsn = read_secret(source.postgresql_dsn_file, SHORTEST_DSN)
        if dsn is None:
            raise RecordUnreadable(NOWHERE)
        async with _postgresql(dsn) as opened:
            yield opened
    except (DatabaseProblem, SecretFileProblem) as problem:
        raise RecordUnreadable(str(problem)) from None


@asynccontextmanager
async def _postgresql(dsn: str) -> AsyncIterator[tuple[RecordToVerify, AuditChain]]:
    try:
        from sidecar.adapters import record_postgresql as postgres  # noqa: PLC0415  its library is an extra
        from sidecar.adapters.postgresql import ConnectionTimeouts, pending_migrations  # noqa: PLC0415  its library is an extra
        from sidecar.adapters.rollout_postgresql import PostgresRollouts  # noqa: PLC0415  its library is an extra
    except ModuleNotFoundError:
        raise RecordUnreadable("PostgreSQL needs the extra: pip install 'dispatch-sidecar[postgresql]'") from None
    limits = ConnectionTimeouts(statement=LONGEST_ANSWER)
    # Refused instead of migrated: verification must change nothing.
    if await pending_migrations(dsn, postgres.SCHEMA, limits):
        raise RecordUnreadable("the database holds no record, or that of an older sidecar: start this one on it first")
    record = postgres.PostgresJournal(dsn, READER, postgres.JournalOptions(limits))
    rollouts = PostgresRollouts(dsn, READER, limits)
    try:
        yield record, rollouts
    finally:
        # In reverse order of opening.
        await rollouts.close()
        await record.close()


def _read_keys(files: Sequence[Path]) -> SignatureVerifier:
    """Read the public keys of the checkpoints. Raises `RecordUnreadable`."""
    try:
        return read_public_keys(files)
    except KeyFileProblem as problem:
        raise RecordUnreadable(str(problem)) from None
