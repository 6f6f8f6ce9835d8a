"""The `[record]` section: the database that stores what sub-agents did."""

from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from sidecar.settings.checkpoints import CheckpointSettings, RetentionSettings
from sidecar.settings.kinds import Secret
from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration

NOTHING: Final = timedelta(0)


class SqliteRecordSettings(Section):
    """The record of one sidecar, in an SQLite file."""

    path: Path = setting(
        Path("/var/lib/sidecar/record.sqlite"),
        description="The database file, on a local disk. Its folder is created with mode 0700 and also holds files "
        "that end in `.lock` and `-wal`.",
    )


class PostgresRecordSettings(Section):
    """The record in a PostgreSQL database, which several sidecars share; needs `dispatch-sidecar[postgresql]`."""

    dsn_file: Path | None = setting(
        None,
        description="File with the address, `postgresql://user:password@host/database`, readable by its owner only.",
    )
    dsn: Secret | None = setting(
        None,
        description="The address itself. Give it by the variable SIDECAR__RECORD__POSTGRESQL__DSN, not in the file.",
    )
    connect_timeout: Duration = setting(timedelta(seconds=2), gt=NOTHING, description="Maximum wait for a connection.")
    statement_timeout: Duration = setting(
        timedelta(seconds=5), gt=NOTHING, description="Maximum duration of a statement, also enforced by the server."
    )
    lease: Duration = setting(
        timedelta(seconds=15),
        ge=timedelta(seconds=1),
        description="A sidecar that has not renewed its lease for this time counts as dead: the others take over its "
        "dispatches.",
    )


class RecordSettings(Section):
    """The database that records what every sub-agent did."""

    database: Literal["sqlite", "postgresql", "memory"] = setting(
        "sqlite",
        description="`sqlite` for one sidecar, `postgresql` for replicas. `memory` loses everything when the sidecar "
        "stops.",
    )
    frames: bool = setting(
        True, description="Keep what sub-agents send, so that `sidecar replay` can send it through newer code."
    )
    sqlite: SqliteRecordSettings = setting(SqliteRecordSettings(), description="The record in one file.")
    postgresql: PostgresRecordSettings = setting(
        PostgresRecordSettings(), description="The record in a PostgreSQL database."
    )
    checkpoints: CheckpointSettings = setting(CheckpointSettings(), description="Signed checkpoints of the record.")
    retention: RetentionSettings = setting(RetentionSettings(), description="Retention of the record.")

    def _check(self) -> None:
        # With both, an operator could not be sure which database gets the record. With none, there is no address.
        configured = self.postgresql
        if self.database == "postgresql" and (configured.dsn is None) == (configured.dsn_file is None):
            raise ValueError("give exactly one: `postgresql.dsn_file`, or `postgresql.dsn` by the environment variable")
