"""`sidecar verify-log` over PostgreSQL: markers of retention and erasure, and audit of rollouts, tampered with."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_verify_log_beside_the_facts import AUDIT, ERASURES, SECOND_PLACE, audited
from tests.support.alterations import first_part, second_part
from tests.support.requirement import requirement
from tests.support.signed_files import DSN, signing, written
from tests.support.verified_records import is_named

IN_POSTGRESQL: dict[str, tuple[Callable[[Path], None], set[str], str]] = {
    **{f"retention: {name}": SECOND_PLACE[name] for name in SECOND_PLACE if name.startswith("a marker")},
    **{f"erasure: {name}": case for name, case in ERASURES.items()},
    **{f"audit: {name}": (audited(case[0]), *case[1:]) for name, case in AUDIT.items()},
}
"""The alterations of the database."""


@pytest.mark.system
@requirement("SX-38", "SX-39")
@pytest.mark.parametrize("name", IN_POSTGRESQL)
def test_an_alteration_of_markers_or_audit_in_postgresqlis_named(tmp_path: Path, postgres_dsn: str, name: str) -> None:
    """The same tables, on a real server."""
    (tmp_path / DSN).touch(0o600)
    (tmp_path / DSN).write_text(postgres_dsn, encoding="utf-8")

    async def write_both() -> None:
        for instance, part in (("first", first_part), ("second", second_part)):
            async with written(tmp_path, [], instance) as record:
                await part(record, signing(record.journal, tmp_path))

    asyncio.run(write_both())
    is_named(tmp_path, *IN_POSTGRESQL[name])
