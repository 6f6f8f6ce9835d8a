"""Audit rows of a whole sidecar are kept 90 days or more, and go then under a signed marker; the record stays whole."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sidecar.adapters.checkpoints import Ed25519Signer
from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.adapters.rollout_sqlite import SqliteRollouts
from sidecar.adapters.system import SystemClock
from sidecar.composition.parts import Overrides
from sidecar.core.identifiers import InstanceId
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from subagents.lifecycle.v1 import activity_pb2
from tests.support.operated_process import operated_here
from tests.support.operating import Operator
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, place

pytestmark = pytest.mark.system

HOW_MANY_WAIT = (
    "import sqlite3, sys; file = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True);"
    "print(file.execute('SELECT count(*) FROM rollout_unexported').fetchone()[0])"
)
KEPT_90_DAYS = "[record.retention]\naudit_days = 90\n"


@dataclass
class LaterClock(SystemClock):
    """The system's clock, some days ahead."""

    days: float = 0.0

    def now(self) -> datetime:
        """Return wall time."""
        return super().now() + timedelta(days=self.days)


@requirement("PF1-NFR-3")
@pytest.mark.seconds(90)
async def test_rows_go_after_ninety_days_under_a_signed_marker_and_the_record_stays_whole() -> None:
    """Killed on day 0; all is there on day 89 and gone on day 91, but for what is still known; `verify-log` passes."""
    private = Ed25519PrivateKey.generate()
    with place() as folder:
        async with operated_here(folder, KEPT_90_DAYS, private) as bench:
            await bench.offers("turn-1")
            await bench.killed("shop")
            await bench.offers("turn-2")
            await until(lambda: _all_handed_on(folder))
            written = [row.sequence for row in await bench.audit()]
        async with operated_here(folder, KEPT_90_DAYS, private, _days(89)) as bench:
            assert [row.sequence for row in await bench.audit()] == written
        async with operated_here(folder, KEPT_90_DAYS, private, _days(91)) as bench:
            await until(lambda: _is_gone(bench, max(written)))
            asked = activity_pb2.ListActivePeriodsRequest(definition_id="support", principal="user-1")
            still = await bench.ask("ListActivePeriods", asked)
            offered = await bench.offers("turn-3")
        (marker,) = await _markers(folder)
        code, said = await _ran("-m", "sidecar", "verify-log", "--config", str(folder / "sidecar.toml"))
        key = load_pem_private_key((folder / "record/checkpoints/checkpoint.key").read_bytes(), password=None)

    assert isinstance(key, Ed25519PrivateKey)
    assert (marker.rows, marker.number) == (len(written), max(written))
    assert Ed25519Signer(key).sign(marker.signed_bytes()) == marker.signature
    assert [each.HasField("started_at") for each in still.periods] == [False]
    assert still.HasField("known_from")
    assert offered == ["ask_support"]
    assert code == 0, said


def _days(number: float) -> Overrides:
    return Overrides(clock=LaterClock(days=number))


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again: neither handing on nor removing tells anybody that it is through."""
    async with asyncio.timeout(20):
        while not await done():
            moment = asyncio.Event()
            asyncio.get_running_loop().call_later(0.1, moment.set)
            await moment.wait()


async def _all_handed_on(folder: Path) -> bool:
    """Say whether every row went to every sink; asked by another process, since this one has the file open."""
    code, (waiting,) = await _ran("-c", HOW_MANY_WAIT, str(folder / "record/record.sqlite"))
    assert code == 0, waiting
    return waiting == "0"


async def _is_gone(bench: Operator, number: int) -> bool:
    return all(row.sequence > number for row in await bench.audit())


async def _markers(folder: Path) -> tuple[AuditMarker, ...]:
    record = await SqliteJournal.open(folder / "record/record.sqlite", InstanceId("test"), lambda what, error: None)
    try:
        return await SqliteRollouts(record.engine, InstanceId("test"), SystemClock()).audit_markers()
    finally:
        await record.close()


async def _ran(*arguments: str) -> tuple[int, list[str]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=ROOT
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode().splitlines()
