"""Checks the record: whether it can be opened, its schema, its free space, and its clock."""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from sidecar.composition.record.open_record import dsn_of
from sidecar.composition.record.record_files import migrate_record
from sidecar.observability.redaction import Redactor
from sidecar.operations.bounded_wait import await_with_limit
from sidecar.operations.process.findings import Finding, error, ok, warning
from sidecar.settings import Settings, SettingsProblem

GIB: Final = 1024 * 1024 * 1024
LITTLE_ROOM: Final = GIB
"""Bytes of free space below which doctor warns. A dispatch takes about 6 KB, so 1 GiB is enough for 170,000."""
LARGEST_SKEW: Final = 1.0
"""The largest accepted difference between the clocks of sidecar and database, in seconds.

Rows have times of both clocks: with a difference, turns seem to end early, late, or before they begin. Leases are not
affected, because only the database's clock measures them.
"""


def examine_record(settings: Settings, seconds: float) -> Sequence[Finding]:
    """Return the findings about the record.

    Args:
        settings: of the sidecar.
        seconds: the longest time for an answer of the database.
    """
    database = settings.record.database
    if database == "memory":
        return [warning("record", database, "the record is lost when the sidecar stops", "choose sqlite or postgresql")]
    if database == "sqlite":
        return [*_schema(settings), *_room(settings.record.sqlite.path)]
    findings = list(_schema(settings))
    # A finding with a remedy means that the database did not answer usefully; its clock would give the same error
    # again.
    return (
        findings
        if any(each.remedy for each in findings)
        else [*findings, asyncio.run(examine_clock(settings, seconds))]
    )


def _schema(settings: Settings) -> Iterator[Finding]:
    """Yield a finding about the schema; an error if the record cannot be opened."""
    about = settings.record.database
    try:
        # Only previewed: doctor changes nothing.
        pending = migrate_record(settings, True)
    except SettingsProblem as problem:
        yield error("record", about, "; ".join(problem.problems), "correct it; the sidecar would not start")
        return
    text = f"{len(pending)} schema steps are applied at the next start" if pending else "the schema is up to date"
    yield ok("record", about, text)


def _room(path: Path) -> Iterator[Finding]:
    """Yield a finding about the free space for a SQLite file."""
    folder = path.parent
    # As the start creates missing folders, the nearest existing one decides.
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        remedy = "run as a user who may write there, or set `record.sqlite.path`"
        yield error("record", str(path), f"{folder} cannot be written by this user", remedy)
        return
    # Of the file system of the nearest existing folder, in which the start would create the record.
    free = shutil.disk_usage(folder).free
    text = f"{free / GIB:.1f} GiB are free"
    if free < LITTLE_ROOM:
        yield warning("record", str(path), text, "make room: with a full disk, the sidecar refuses dispatches")
    else:
        yield ok("record", str(path), text)


async def examine_clock(settings: Settings, seconds: float) -> Finding:
    """Return the finding about the difference between the clocks of the database and of this machine."""
    import asyncpg  # noqa: PLC0415  an extra; the schema was read with it

    try:
        # Without the pool of the record: one statement, then the connection is closed. Without prepared statements,
        # which a pooler may not support.
        dsn = dsn_of(settings.record.postgresql, Redactor())
        connection = await asyncpg.connect(dsn, timeout=seconds, statement_cache_size=0)
        try:
            before = time.time()
            theirs = await await_with_limit(
                seconds, connection.fetchval("select extract(epoch from clock_timestamp())")
            )
            # Compared with the middle of the request, so that half of its duration does not count as skew.
            skew = float(theirs) - (before + time.time()) / 2
        finally:
            await connection.close(timeout=seconds)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as problem:
        # The database has answered about its schema a moment before.
        remedy = "see whether the database still answers, and run doctor again"
        return warning("record", "clock", f"the database's clock cannot be read: {type(problem).__name__}", remedy)
    if abs(skew) > LARGEST_SKEW:
        remedy = "synchronise the clocks of both machines: expiry and retention compare their times"
        return error("record", "clock", f"the database's clock is {skew:+.1f} s from this one", remedy)
    return ok("record", "clock", f"the database's clock is {skew:+.2f} s from this one")
