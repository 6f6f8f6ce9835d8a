"""The location of a record to verify, from the options and the settings."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The location of the record and of its second place.

    Attributes:
        sqlite: the file of the record; or
        postgresql_dsn_file: a file with the address of the database; or
        postgresql_dsn: the address itself.
        checkpoints: the files of the second place; empty: verify without checkpoints.
        public_keys: the public keys of the signers.
    """

    sqlite: Path | None = None
    postgresql_dsn_file: Path | None = None
    checkpoints: Sequence[Path] = ()
    public_keys: Sequence[Path] = ()
    postgresql_dsn: str | None = field(default=None, repr=False)

    def with_defaults_of(self, configured: "RecordSource") -> "RecordSource":
        """Return the location with missing values taken from the settings."""
        # The place of the record is taken as a whole: a file from an option and an address from the settings would be
        # two.
        of_record = configured if self.sqlite is None and self.postgresql_dsn_file is None else self
        return replace(
            of_record,
            checkpoints=self.checkpoints or configured.checkpoints,
            public_keys=self.public_keys or configured.public_keys,
        )
