"""Which steps of a schema a database still needs."""

from collections.abc import Mapping, Sequence

from sidecar.adapters.migrations.files import DatabaseProblem, Migration


def pending(migrations: Sequence[Migration], applied: Mapping[int, str], where: str) -> tuple[Migration, ...]:
    """Return the steps that `applied` lacks, in order.

    Args:
        migrations: all steps that this sidecar knows.
        applied: checksums by number, as the database has them in `schema_migrations`.
        where: which database, for the messages; no password in it.

    Raises:
        DatabaseProblem: the database is newer than this sidecar, or was made by other steps.
    """
    newest, known = max(applied, default=0), len(migrations)
    if newest > known:
        raise DatabaseProblem(
            f"{where} has schema version {newest}, and this sidecar knows {known}: "
            "start the newer sidecar again, or restore a backup of before"
        )
    if sorted(applied) != list(range(1, newest + 1)):
        raise DatabaseProblem(f"{where} lacks schema steps between those it has: restore a backup")
    for migration in migrations[:newest]:
        if applied[migration.number] != migration.checksum:
            raise DatabaseProblem(
                f"{where} was made by another version of schema step {migration}: start the sidecar that made it"
            )
    return tuple(migrations[newest:])
