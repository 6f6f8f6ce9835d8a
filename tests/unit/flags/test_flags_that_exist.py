"""A flag that exists and is off is told apart from a name that nobody has created, where the backend can."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sidecar.adapters.flags_embedded import EmbeddedFlags, EmbeddedFlagWriter
from sidecar.adapters.flags_file import FileFlags
from sidecar.adapters.flags_memory import MemoryFlags
from sidecar.adapters.rollout_memory import MemoryRollouts, RolloutsInMemory
from sidecar.core.flag_states import BackendStatus, FlagReport, FlagRoutes, flag_snapshot_of
from tests.support.second_place import SettableClock

Reports = Callable[[Path], Awaitable[FlagReport]]


async def of_a_file(folder: Path) -> FlagReport:
    """Return what a file says in which one flag is true and one is false."""
    path = folder / "flags.json"
    path.write_text('{"flags": {"shop": true, "rewards": false}}')
    backend = FileFlags(path, 60.0)
    try:
        return await backend.fetch()
    finally:
        await backend.close()


async def of_the_store(folder: Path) -> FlagReport:
    """Return what the store says after two flags were created, one of them on."""
    clock = SettableClock()
    store = MemoryRollouts(clock, RolloutsInMemory())
    writer = EmbeddedFlagWriter(store, clock)
    await writer.switch("shop", True, "ada")
    await writer.switch("rewards", False, "ada")
    return await EmbeddedFlags(store).fetch()


async def of_memory(folder: Path) -> FlagReport:
    """Return what memory says after one of two flags went off."""
    flags = MemoryFlags(["shop", "rewards"])
    flags.set("rewards", on=False)
    return await flags.fetch()


@pytest.mark.parametrize("report_of", [of_a_file, of_the_store, of_memory])
async def test_each_backend_of_ours_names_the_flags_that_are_off(report_of: Reports, tmp_path: Path) -> None:
    """One on, one off; a third name is in neither."""
    report = await report_of(tmp_path)
    fresh = {"memory": BackendStatus(report, 0.0)}
    now, later = (
        flag_snapshot_of(FlagRoutes("memory"), fresh, now=seconds, max_staleness=10.0) for seconds in (0.0, 10.0)
    )

    assert (report.on, report.off) == (frozenset({"shop"}), frozenset({"rewards"}))
    assert [now.exists(name) for name in ("shop", "rewards", "support")] == [True, True, False]
    assert not any(later.exists(name) for name in ("shop", "rewards"))  # not heard lately
