"""Power cuts of a sidecar at work: its record is on a disk that tears writes at 512 bytes.

A library that is preloaded logs every write of the real process. From the log a test rebuilds the disk as a cut at any
moment would have left it, and compares it with what clients had been told by then. After each life the next sidecar
begins on such a disk.

A few cuts in `make test`; `SIDECAR_TORTURE_POWER_CUTS` sets how many. The control is a disk that only says that it has
synced.
"""

import asyncio
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.support.named_skips import needs_tool
from tests.support.requirement import requirement
from tests.support.sidecar_process import place
from tests.system.torture.agents import agents_for
from tests.system.torture.checker import SqliteFile, compare, figures, lost, over
from tests.system.torture.clients import Told, clients_at_work
from tests.system.torture.lists import lists_hold
from tests.system.torture.places import (
    client_of,
    dice,
    limit_of,
    seed,
    serving,
    settings_of,
    strikes,
    tell,
    verified,
)
from tests.system.torture.power.disk import Disk, contents_of, lay_out

pytestmark = pytest.mark.system

CUTS: Final = strikes("POWER_CUTS", 24)
CUTS_OF_A_LIFE: Final = 12
"""Fewer lives than cuts: a cut needs a start only where the next sidecar begins on its disk."""
SOURCE: Final = Path(__file__).with_name("write_log.c")
RECORD: Final = Path("record/record.sqlite")
WRITTEN: Final = ("record", "checkpoints")
"""Folders of a place that the sidecar writes to."""


@cache
def library() -> Path:
    """Return the library, compiled once for this process."""
    compiler = needs_tool("gcc")
    target = Path(tempfile.mkdtemp(prefix="write-log-")) / "write_log.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(target), str(SOURCE)]
    subprocess.run([*command, "-ldl", "-pthread"], check=True, capture_output=True)
    return target


@contextmanager
def in_memory() -> Iterator[Path]:
    """Give a folder for disks that are looked at once."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="cut-", dir=shared if shared.is_dir() else None) as name:
        yield Path(name)


@dataclass
class Cuts:
    """What came of the cuts of one run.

    Attributes:
        made: how many.
        changes: writes, syncs and others of all lives.
        missing: what had been told and was not on the disk.
        lies: what would have been missing on a disk that lies.
    """

    chosen: Random
    made: int = 0
    changes: int = 0
    missing: list[str] = field(default_factory=list)
    lies: int = 0

    def look_at(self, folder: Path, before: dict[Path, bytes], log: bytes, told: Told) -> dict[Path, bytes]:
        """Cut the power at moments of a life, the last one at its end; returns the disk that this one leaves."""
        disk, lying = Disk(folder, before, log), Disk(folder, before, log, lying=True)
        count = len(disk.changes)
        self.changes += count
        moments = sorted(self.chosen.randrange(count) for _ in range(CUTS_OF_A_LIFE - 1))
        files: dict[Path, bytes] = {}
        for moment in (*moments, count):
            files = disk.after_cut(moment, self.chosen)
            self.missing += [f"cut after {moment} changes: {each}" for each in self._lost(files, told, disk, moment)]
            self.made += 1
            if moment == count or not self.lies:  # the cut at the end may, by chance, find all of it on the disk
                self.lies += len(self._lost(lying.after_cut(moment, self.chosen), told, lying, moment))
        return files

    def _lost(self, files: dict[Path, bytes], told: Told, disk: Disk, count: int) -> list[str]:
        if count == 0:
            return []
        known = told.before(disk.changes[count - 1].at)
        if not known.acknowledged:
            return []
        with in_memory() as place_of_record:
            lay_out({path: content for path, content in files.items() if path.parts[0] in WRITTEN}, place_of_record)
            try:
                return lost(known, SqliteFile(place_of_record / RECORD))
            except Exception as error:  # noqa: BLE001  a record that cannot be read has lost everything
                return [f"cannot be read: {type(error).__name__}: {error}"]


@requirement("SX-38", "SX-51")
@pytest.mark.seconds(limit_of(CUTS))
async def test_a_power_cut_at_any_moment_loses_nothing_acknowledged() -> None:
    """And the control shows that the cuts are real: a disk that lies about its syncs loses what was told."""
    number = seed()
    chosen = dice(number)
    cuts = Cuts(chosen)
    with place() as folder, tempfile.TemporaryDirectory(prefix="log-") as logs:
        more = settings_of(folder, folder)
        async with agents_for(folder, chosen) as agents, AsyncExitStack() as last:
            async with clients_at_work(partial(client_of, folder), chosen) as told:
                while cuts.made < CUTS:
                    before, log = contents_of(folder), Path(logs) / f"life-{cuts.made}"
                    await _live_until_killed(folder, more, log, told, chosen)
                    files = await asyncio.to_thread(cuts.look_at, folder, before, log.read_bytes(), told)
                    log.unlink()
                    _replace(folder, files)
                    assert cuts.missing == []
                sidecar = await last.enter_async_context(serving(folder, more))
            await over(SqliteFile(folder / RECORD))
            sidecar.signal(signal.SIGTERM)
            assert await sidecar.ended() == 0
        await verified(folder)
        await lists_hold(folder, SqliteFile(folder / RECORD))
        found = compare(told, SqliteFile(folder / RECORD))
        counted = {"power cuts": cuts.made, "changes of the disk": cuts.changes, "lost by a disk that lies": cuts.lies}
        tell("power cuts", number, {**counted, **figures(told, found)})
        agents.check()
        assert (found.lost, found.doubled, found.odd) == ([], [], [])
        assert cuts.lies > 0


async def _live_until_killed(folder: Path, more: str, log: Path, told: Told, chosen: Random) -> None:
    """Let a sidecar work for some answers; its writes are logged."""
    logged = {
        "LD_PRELOAD": str(library()),
        "SIDECAR_WRITE_ROOT": str(folder),
        "SIDECAR_WRITE_LOG": str(log),
    }
    async with serving(folder, more, **logged) as sidecar:
        await told.progress(chosen.randint(5, 30))
        sidecar.signal(signal.SIGKILL)
        await sidecar.ended()


def _replace(folder: Path, files: dict[Path, bytes]) -> None:
    """Make the disk of a cut the disk of the next sidecar."""
    for name in WRITTEN:
        shutil.rmtree(folder / name)
        (folder / name).mkdir(mode=0o700)
    lay_out({path: content for path, content in files.items() if path.parts[0] in WRITTEN}, folder)
