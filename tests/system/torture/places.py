"""Settings of the sidecars that are tortured, and how long all of it takes."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random, randrange
from typing import Final

from subagents_client import ClientTimeouts, SidecarClient
from tests.support.sidecar_process import ROOT, SidecarProcess, started

SECONDS: Final = float(os.environ.get("SIDECAR_TORTURE_SECONDS", "0"))
"""How long each long run takes; 0: only as long as it needs to meet each kind of fault."""
LIMIT: Final = SECONDS + 90
SECONDS_OF_A_STRIKE: Final = 6.0
"""Longest that a sidecar lives and starts again on average, on a busy machine."""
SHORT: Final = ClientTimeouts(
    bind=timedelta(seconds=1),
    dispatch=timedelta(seconds=6),
    unary=timedelta(seconds=1),
    unreachable_after=timedelta(seconds=1),
)
"""A client that is to notice soon that nobody answers."""
QUICK: Final = {
    "SIDECAR__DISPATCH__TURN_LIFETIME": "3s",
    "SIDECAR__DISPATCH__RESUME_GRACE": "1s",
    "SIDECAR__DISPATCH__RECORD_POLL_INTERVAL": "200ms",
    "SIDECAR__DISPATCH__BREAKER__FAILURE_THRESHOLD": "1000",
    "SIDECAR__DISPATCH__RETRIES__BUDGET_MIN": "100000",
}
MORE: Final = """
[keys]
files = {{ one = "{shared}/signing.key" }}

[record.checkpoints]
interval = "1s"
file = "{folder}/checkpoints/checkpoints.jsonl"
key_file = "{folder}/checkpoints/checkpoint.key"

[rollout]
tombstone_file = "{folder}/kills.jsonl"
"""
POSTGRESQL: Final = """
[record]
database = "postgresql"

[record.postgresql]
dsn_file = "{folder}/dsn"
lease = "{lease}"
"""


def strikes(name: str, short: int) -> int:
    """Return how often something is struck: `SIDECAR_TORTURE_<NAME>`, else the few times of the short form."""
    return int(os.environ.get(f"SIDECAR_TORTURE_{name}") or short)


def limit_of(count: int) -> float:
    """Return how long a run with so many strikes may take."""
    return LIMIT + count * SECONDS_OF_A_STRIKE


def seed() -> int:
    """Return the seed of this run: `SIDECAR_TORTURE_SEED`, else a new one; it is printed with the figures."""
    said = os.environ.get("SIDECAR_TORTURE_SEED", "")
    return int(said) if said else randrange(10**6)


def dice(number: int) -> Random:
    """Return what decides everything that is left to chance."""
    return Random(number)


def tell(what: str, number: int, figures: Mapping[str, object]) -> None:
    """Print what a run came to."""
    said = ", ".join(f"{value} {name}" for name, value in figures.items())
    sys.stdout.write(f"\ntorture, {what}: seed {number}; {said}\n")


def settings_of(folder: Path, shared: Path, dsn: str = "", lease: str = "1s") -> str:
    """Return what the settings say beside the usual; makes the files that they name, the key in `shared`."""
    key = shared / "signing.key"
    if not key.exists():
        _private(key, secrets.token_hex(32))
    secret = folder / "dispatch" / "boot-secret"
    if not secret.exists():  # there before the first start, as a deployment would have it
        secret.parent.mkdir(mode=0o700)
        _private(secret, secrets.token_hex(32))
    more = MORE.format(folder=folder, shared=shared)
    if dsn:
        _private(folder / "dsn", dsn)
        more += POSTGRESQL.format(folder=folder, lease=lease)
    return more


@asynccontextmanager
async def serving(folder: Path, more: str, **environment: str) -> AsyncIterator[SidecarProcess]:
    """Start a sidecar and wait until it listens."""
    async with started(folder, more=more, environment={**QUICK, **environment}) as sidecar:
        await sidecar.event("sidecar.readiness")
        yield sidecar


def signed(folder: Path) -> bool:
    """Say whether there is a checkpoint to verify with: a sidecar that was killed at once left none."""
    return (folder / "checkpoints" / "checkpoints.jsonl").exists()


async def verified(folder: Path, *others: Path) -> None:
    """Fail unless `sidecar verify-log` finds the record whole; `others` have signed for the same database."""
    asking = [sys.executable, "-m", "sidecar", "verify-log", "--config", str(folder / "sidecar.toml")]
    for each in (folder, *others) if others else ():
        signed_there = each / "checkpoints"
        asking += ["--checkpoints", str(signed_there / "checkpoints.jsonl")]
        asking += ["--public-key", str(signed_there / "checkpoint.key.pub")]
    process = await asyncio.create_subprocess_exec(
        *asking,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=ROOT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


def client_of(folder: Path, timeouts: ClientTimeouts = SHORT) -> SidecarClient:
    """Return a client of whichever process serves there, now or later."""
    secret = folder / "dispatch" / "boot-secret"
    return SidecarClient.connect(f"unix:{folder}/dispatch/sidecar.sock", boot_secret_file=secret, timeouts=timeouts)


def _private(file: Path, text: str) -> None:
    file.touch(0o600)
    file.write_text(text, encoding="utf-8")
