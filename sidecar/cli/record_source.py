"""Where a record is that is to be verified, as the options and the settings say it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RecordSource:
    """Where the record and its second place are.

    Attributes:
        sqlite: the file; or
        postgresql_dsn_file: the file that holds the address of the database.
        checkpoints: the files of the second place; none: verify without.
        public_keys: of whoever signed.
    """

    sqlite: Path | None = None
    postgresql_dsn_file: Path | None = None
    checkpoints: Sequence[Path] = ()
    public_keys: Sequence[Path] = ()

    def with_defaults_of(self, configured: "RecordSource") -> "RecordSource":
        """Return the same, with what is not said here taken from the settings."""
        record_said = self.sqlite is not None or self.postgresql_dsn_file is not None
        whole = (
            self
            if record_said
            else replace(self, sqlite=configured.sqlite, postgresql_dsn_file=configured.postgresql_dsn_file)
        )
        return replace(
            whole,
            checkpoints=self.checkpoints or configured.checkpoints,
            public_keys=self.public_keys or configured.public_keys,
        )
