"""The primary dies, its standby is promoted, and what was acknowledged is there.

The standby is synchronous: a commit is answered when it has it. `SIDECAR_TORTURE_FAILOVERS` sets how often the two
change places.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from random import Random, randrange

import pytest

from tests.support.postgres import PORT, USER, running_postgres
from tests.support.requirement import requirement
from tests.system.postgres_faults.children_at_work import children_at_work

pytestmark = pytest.mark.system

FAILOVERS = int(os.environ.get("SIDECAR_TORTURE_FAILOVERS") or 1)


@requirement("SX-38")
@pytest.mark.seconds(60 + 30 * FAILOVERS)
async def test_nothing_acknowledged_is_lost_when_a_standby_is_promoted(short_folder: Path) -> None:
    """One address names both servers, and the connection looks for the one that can be written to."""
    seed = randrange(10**6)
    chosen = Random(seed)
    with running_postgres() as first:
        database = first.new_database()
        folders = [first.folder, short_folder]
        hosts = f"host={folders[0]},{folders[1]}&port={PORT},{PORT}"
        dsn = f"postgresql://{USER}@/{database}?{hosts}&target_session_attrs=primary"
        primary, standby = first, await asyncio.to_thread(first.copy_into, short_folder)
        try:
            async with children_at_work(dsn) as children:
                for number in range(FAILOVERS):
                    await children.progress(chosen.randint(1, 60))
                    await asyncio.to_thread(primary.kill)
                    await asyncio.to_thread(standby.promote)
                    await children.progress(20)
                    if number + 1 < FAILOVERS:
                        shutil.rmtree(primary.folder / "data")
                        primary, standby = standby, await asyncio.to_thread(standby.copy_into, primary.folder)
        finally:
            primary.stop()
            standby.stop()
    sys.stdout.write(
        f"\npostgres failover: seed {seed}; {FAILOVERS} promotions; {children.count} events acknowledged"
        f" in {children.store.batches} commits, 0 lost or doubled;"
        f" {children.unknown} unknown, {children.refused} refused\n"
    )
