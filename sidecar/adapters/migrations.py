"""Finds the schema steps (numbered SQL files) that a database lacks. The SQLite and PostgreSQL adapters apply them.

A database keeps number and checksum of each step that was applied to it in the table `schema_migrations`.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final

from msgspec import Struct

FORM: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class DatabaseProblem(Exception):
    """A database cannot be opened. The message names the database, the cause and the remedy."""


class DatabaseHeld(DatabaseProblem):
    """Another process has the database open, and only one process at a time can open it."""


class Migration(Struct, frozen=True):
    """One step of a schema.

    Attributes:
        number: the position among all steps, from 1, without gaps.
        name: what the step does, from the name of its file.
        sql: the statements, which run in one transaction.
    """

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the statements, 64 hexadecimal digits. It shows that an applied step was not edited."""
        return sha256(self.sql.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.number:04d}_{self.name}"


def load_migrations(package: str) -> tuple[Migration, ...]:
    """Return the steps of a package in order. Each is a file `0001_<name>.sql` in the package's folder.

    Raises:
        ValueError: a file has another name, or a number is missing or occurs twice.
    """
    steps = []
    for file in Path(import_module(package).__path__[0]).iterdir():
        if not file.name.endswith(".sql"):
            continue
        match = FORM.fullmatch(file.name)
        if match is None:
            raise ValueError(f"{package}: {file.name} is not named 0001_<what_it_does>.sql")
        steps.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    steps.sort(key=lambda each: each.number)
    if [each.number for each in steps] != list(range(1, len(steps) + 1)):
        raise ValueError(f"{package}: the migrations are not numbered from 1 without gaps")
    return tuple(steps)


def pending(migrations: Sequence[Migration], applied: Mapping[int, str], where: str) -> tuple[Migration, ...]:
    """Return the steps that `applied` lacks, in order.

    Args:
        migrations: all steps that this sidecar knows.
        applied: the checksum of each applied step, by number.
        where: a name of the database, for messages, without a password.

    Raises:
        DatabaseProblem: the database is newer than this sidecar, or was created by other steps.
    """
    newest, known = max(applied, default=0), len(migrations)
    # A newer schema is refused: an older sidecar could misread its rows, or write rows that the schema does not allow.
    if newest > known:
        raise DatabaseProblem(
            f"{where} has schema version {newest}, and this sidecar knows {known}: "
            "start the newer sidecar again, or restore a backup of before"
        )
    if sorted(applied) != list(range(1, newest + 1)):
        raise DatabaseProblem(f"{where} lacks schema steps between those it has: restore a backup")
    for migration in migrations[:newest]:
        # If the database was created by another version of the step, the form of its tables is not known.
        if applied[migration.number] != migration.checksum:
            raise DatabaseProblem(
                f"{where} was made by another version of schema step {migration}: start the sidecar that made it"
            )
    return tuple(migrations[newest:])
