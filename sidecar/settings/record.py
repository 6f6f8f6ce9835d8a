"""The `[record]` section: where it is kept what sub-agents did."""

from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from sidecar.settings.checkpoints import CheckpointSettings, RetentionSettings
from sidecar.settings.kinds import Secret
from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration

NOTHING: Final = timedelta(0)


class SqliteRecordSettings(Section):
    """The record in one file, of one sidecar."""

    path: Path = setting(
        Path("/var/lib/sidecar/record.sqlite"),
        description="The database file, on a local disk. Its folder is made with mode 0700; `.lock` and `-wal` files "
        "lie beside it.",
    )


class PostgresRecordSettings(Section):
    """The record in a PostgreSQL database, which several sidecars share; needs `dispatch-sidecar[postgresql]`."""

    dsn_file: Path | None = setting(
        None,
        description="File with the address, `postgresql://user:password@host/database`, readable by its owner only.",
    )
    dsn: Secret | None = setting(
        None, description="The address itself, meant for the variable SIDECAR__RECORD__POSTGRESQL__DSN. Never logged."
    )
    connect_timeout: Duration = setting(timedelta(seconds=2), gt=NOTHING, description="Longest wait for a connection.")
    statement_timeout: Duration = setting(
        timedelta(seconds=5), gt=NOTHING, description="Longest wait for an answer, here and in the server."
    )
    lease: Duration = setting(
        timedelta(seconds=15),
        ge=timedelta(seconds=1),
        description="A sidecar that says nothing for so long is dead for the others, which go on with its dispatches.",
    )


class RecordSettings(Section):
    """Where every sub-agent's work is put on record."""

    database: Literal["sqlite", "postgresql", "memory"] = setting(
        "sqlite", description="sqlite for one sidecar, postgresql for replicas; memory forgets everything at the stop."
    )
    frames: bool = setting(
        True, description="Keep what sub-agents send, so that `sidecar replay` can send it through newer code."
    )
    sqlite: SqliteRecordSettings = setting(SqliteRecordSettings(), description="The record in one file.")
    postgresql: PostgresRecordSettings = setting(
        PostgresRecordSettings(), description="The record in a PostgreSQL database."
    )
    checkpoints: CheckpointSettings = setting(CheckpointSettings(), description="Where it is signed what was closed.")
    retention: RetentionSettings = setting(RetentionSettings(), description="How long what is kept.")

    def _check(self) -> None:
        configured = self.postgresql
        if self.database == "postgresql" and (configured.dsn is None) == (configured.dsn_file is None):
            raise ValueError("give `postgresql.dsn_file`, or `postgresql.dsn` by its variable; one of them")
