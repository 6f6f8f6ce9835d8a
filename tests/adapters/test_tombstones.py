"""Kills in a file of their own: on disk before the answer, there after a restart, in memory whatever the disk does."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from sidecar.adapters.tombstones import TombstonesInFile, TombstonesUnusable, opened_tombstones
from sidecar.adapters.tombstones.file import REWRITTEN_FROM
from sidecar.core.identifiers import DefinitionId, Digest, Slot
from sidecar.operations.rollout.store.ports import LocalStop, StopKind

LINE_END = b"\n"
Problems = list[tuple[str, str]]


def a_stop(name: str, kind: StopKind = StopKind.KILL) -> LocalStop:
    """Return a stop of the definition `name`."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return LocalStop(
        kind=kind,
        digest=Digest(name),
        definition_id=DefinitionId(name),
        slot=Slot(name),
        at=at,
        by="alice",
        request_json="{}",
    )


def of(*names: str) -> frozenset[Digest]:
    """Return the definitions of these names."""
    return frozenset(map(Digest, names))


async def kept_in(path: Path, problems: Problems | None = None) -> TombstonesInFile:
    """Return what a process reads that starts now; it has ended again."""
    report = [] if problems is None else problems
    async with opened_tombstones(path, lambda kind, text: report.append((kind, text))) as tombstones:
        return tombstones


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Let no file of this process grow beyond the length that `path` has and ten bytes: a line does not fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_kill_and_that_it_is_not_on_record_survive_a_restart(tmp_path: Path) -> None:
    """Two kills, one of them on record: both hold, one is pending; the file is its owner's only."""
    path = tmp_path / "state" / "tombstones"
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(a_stop("shop"))
        await tombstones.add(a_stop("rewards"))
        await tombstones.recorded(a_stop("shop"))
    again = await kept_in(path)
    assert (again.all(), [stop.digest for stop in again.pending()]) == (of("shop", "rewards"), [Digest("rewards")])
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_ramp_down_holds_until_it_is_on_record(tmp_path: Path) -> None:
    """A restart in between keeps it; afterwards it is gone, may come again, and never was a kill."""
    path, stop = tmp_path / "tombstones", a_stop("shop", StopKind.RAMP_DOWN)
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(stop)
    async with opened_tombstones(path, _no_problem) as tombstones:
        assert (tombstones.ramped_down(), tombstones.all()) == (of("shop"), of())
        await tombstones.recorded(stop)
        assert tombstones.ramped_down() == frozenset()
        await tombstones.add(stop)
    assert (await kept_in(path)).ramped_down() == {"shop"}


async def test_two_ramp_downs_of_one_definition_are_two_that_have_to_be_on_record(tmp_path: Path) -> None:
    """Each was answered; that one is settled settles no other, and a restart knows which."""
    path = tmp_path / "tombstones"
    first, second = (
        msgspec.structs.replace(a_stop("shop", StopKind.RAMP_DOWN), request_json=f'{{"request_id": "{name}"}}')
        for name in ("down-1", "down-2")
    )
    async with opened_tombstones(path, _no_problem) as tombstones:
        for each in (first, second, first):
            await tombstones.add(each)
        await tombstones.recorded(first)
        assert (tombstones.ramped_down(), tombstones.pending()) == (of("shop"), (second,))
    assert (await kept_in(path)).pending() == (second,)


@pytest.mark.parametrize("beside", ["writable", "a folder is in the way"])
async def test_a_file_does_not_grow_without_end_and_loses_nothing_that_counts(tmp_path: Path, beside: str) -> None:
    """A watchdog ramps down for months; else a start would fail of the size of the file one day."""
    path = tmp_path / "tombstones"
    held = a_stop("rewards", StopKind.RAMP_DOWN)
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(a_stop("shop"))
        await tombstones.recorded(a_stop("shop"))
        await tombstones.add(a_stop("refunds"))
        await tombstones.add(held)
        if beside != "writable":
            (tmp_path / "tombstones.new").mkdir()
        for number in range(1_000):
            down = msgspec.structs.replace(a_stop("shop", StopKind.RAMP_DOWN), request_json=f'"{number:0500}"')
            await tombstones.add(down)
            await tombstones.recorded(down)
        with pytest.raises(TombstonesUnusable, match="used by another"):
            await kept_in(path)
    assert (path.stat().st_size < REWRITTEN_FROM) is (beside == "writable")
    assert path.stat().st_mode & 0o777 == 0o600
    again = await kept_in(path)
    assert (again.all(), again.ramped_down()) == (of("shop", "refunds"), of("rewards"))
    assert [stop.digest for stop in again.pending()] == ["refunds", "rewards"]


async def test_reading_gives_the_same_object_until_there_is_another_kill(tmp_path: Path) -> None:
    """Binds see by identity that nothing is new."""
    async with opened_tombstones(tmp_path / "tombstones", _no_problem) as tombstones:
        await tombstones.add(a_stop("shop"))
        before = tombstones.all()
        await tombstones.add(a_stop("shop"))
        assert tombstones.all() is before


@pytest.mark.parametrize("cut", [1, 20, 200])
async def test_a_line_that_was_half_written_is_cut_off(tmp_path: Path, cut: int) -> None:
    """Power goes in the middle of the second line: the first holds, and what comes next can be read."""
    path, problems = tmp_path / "tombstones", Problems()
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(a_stop("shop"))
        first = path.stat().st_size
        await tombstones.add(a_stop("rewards"))
    os.truncate(path, min(first + cut, path.stat().st_size - 2))
    async with opened_tombstones(path, _no_problem) as tombstones:
        assert tombstones.all() == {"shop"}
        await tombstones.add(a_stop("support"))
    assert ((await kept_in(path, problems)).all(), problems) == (of("shop", "support"), [])


async def test_a_damaged_line_is_reported_and_the_others_hold(tmp_path: Path) -> None:
    """Bytes that nobody can read between two kills."""
    path, problems = tmp_path / "tombstones", Problems()
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(a_stop("shop"))
    with path.open("ab") as file:
        file.write(b"\xff\x00{\n{}\n")
    again = await kept_in(path, problems)
    assert (again.all(), [kind for kind, _ in problems]) == (of("shop"), ["tombstones_damaged"])
    assert "line 2, 3" in problems[0][1]


async def test_a_last_line_that_lacks_nothing_but_its_end_holds(tmp_path: Path) -> None:
    """It may have been answered for: one byte of damage must not cost a kill. What comes next is a line of its own."""
    path, problems = tmp_path / "tombstones", Problems()
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(a_stop("shop"))
    os.truncate(path, path.stat().st_size - 1)
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(a_stop("support"))
    assert ((await kept_in(path, problems)).all(), problems) == (of("shop", "support"), [])


@pytest.mark.parametrize("damage", [b"\xff", b"\x00", b"\n", b"\xed\xa0\x80", b'","deep":' + b"[" * 5000])
async def test_a_damaged_kill_is_reported_and_what_it_names_is_held_back(tmp_path: Path, damage: bytes) -> None:
    """Bytes of any kind in the second of three kills: the others hold, and so does it; it waits for no record."""
    path, problems = tmp_path / "tombstones", Problems()
    names = [f"sha256:{number:064x}" for number in range(3)]
    async with opened_tombstones(path, _no_problem) as tombstones:
        for name in names:
            await tombstones.add(a_stop(name))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"alice", b"al" + damage + b"ce") + lines[2])
    before = path.read_bytes()
    again = await kept_in(path, problems)
    assert (again.all(), [stop.digest for stop in again.pending()]) == (
        of(*names),
        [Digest(names[0]), Digest(names[2])],
    )
    assert [kind for kind, _ in problems] == ["tombstones_damaged"]
    assert f"line 2{', 3' if damage == LINE_END else ''} of {path} cannot be read" in problems[0][1]
    assert names[1] in problems[0][1]
    assert path.read_bytes() == before


async def test_a_kill_whose_end_is_damaged_is_not_taken_for_half_written(tmp_path: Path) -> None:
    """Another byte in the place of the last line's end: the line stays, and what it names is held back."""
    path, problems, name = tmp_path / "tombstones", Problems(), f"sha256:{1:064x}"
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(a_stop(name))
    damaged = path.read_bytes().removesuffix(LINE_END) + b"K"
    path.write_bytes(damaged)
    assert ((await kept_in(path, problems)).all(), len(problems)) == (of(name), 1)
    assert path.read_bytes() == damaged + LINE_END


async def test_a_damaged_ramp_down_is_reported_and_holds_nothing(tmp_path: Path) -> None:
    """It may have been over long ago, and the file does not say: no kill is made of it."""
    path, problems = tmp_path / "tombstones", Problems()
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(a_stop(f"sha256:{1:064x}", StopKind.RAMP_DOWN))
    path.write_bytes(path.read_bytes().replace(b"alice", b"\xff"))
    again = await kept_in(path, problems)
    assert (again.all(), again.ramped_down()) == (frozenset(), frozenset())
    assert [kind for kind, _ in problems] == ["tombstones_damaged"]


async def test_a_file_that_is_written_anew_keeps_its_damaged_lines_as_they_are(tmp_path: Path) -> None:
    """Bytes that no JSON holds, and a file that grows beyond its limit: they are there afterwards, and told again."""
    path, problems, damaged = tmp_path / "tombstones", Problems(), b'{"stop": "\xff\r\x00"}\n'
    path.touch(mode=0o600)
    path.write_bytes(damaged)
    async with opened_tombstones(path, lambda *_: None) as tombstones:
        for number in range(1_000):
            down = msgspec.structs.replace(a_stop("shop", StopKind.RAMP_DOWN), request_json=f'"{number:0500}"')
            await tombstones.add(down)
            await tombstones.recorded(down)
    assert path.stat().st_size < REWRITTEN_FROM
    assert damaged in path.read_bytes()
    await kept_in(path, problems)
    assert [kind for kind, _ in problems] == ["tombstones_damaged"]


async def test_with_a_full_disk_a_kill_holds_in_memory_and_says_that_it_is_not_kept(tmp_path: Path) -> None:
    """`add` raises and leaves no half line; with room again the next stop takes the first one along."""
    path = tmp_path / "tombstones"
    async with opened_tombstones(path, _no_problem) as tombstones:
        await tombstones.add(a_stop("shop"))
        length = path.stat().st_size
        with full_disk(path), pytest.raises(OSError, match="too large"):
            await tombstones.add(a_stop("rewards"))
        assert (tombstones.all(), path.stat().st_size) == (of("shop", "rewards"), length)
        await tombstones.add(a_stop("support"))
    assert (await kept_in(path)).all() == {"shop", "rewards", "support"}


async def test_the_same_kill_asked_again_is_kept_once_the_disk_takes_it(tmp_path: Path) -> None:
    """An operator who repeats a kill that did not survive makes it survive."""
    path = tmp_path / "tombstones"
    async with opened_tombstones(path, _no_problem) as tombstones:
        with full_disk(path), pytest.raises(OSError, match="too large"):
            await tombstones.add(a_stop("shop"))
        await tombstones.add(a_stop("shop"))
    assert (await kept_in(path)).all() == {"shop"}


async def test_many_kills_at_once_are_all_kept(tmp_path: Path) -> None:
    """Twenty at the same time share writes and lose none."""
    path, names = tmp_path / "tombstones", [f"agent-{number}" for number in range(20)]
    async with opened_tombstones(path, _no_problem) as tombstones:
        await asyncio.gather(*(tombstones.add(a_stop(name)) for name in names))
    assert (await kept_in(path)).all() == set(names)


async def test_a_file_that_another_process_has_is_refused(tmp_path: Path) -> None:
    """Two sidecars must not write into one file."""
    path = tmp_path / "tombstones"
    async with opened_tombstones(path, _no_problem):
        with pytest.raises(TombstonesUnusable, match="another sidecar"):
            await kept_in(path)


@pytest.mark.parametrize(("mode", "why"), [(0o640, "chmod 0600"), (0o602, "chmod 0600")])
async def test_a_file_that_others_may_touch_is_refused(tmp_path: Path, mode: int, why: str) -> None:
    """Whoever can write it can stop sub-agents."""
    path = tmp_path / "tombstones"
    path.touch()
    path.chmod(mode)
    with pytest.raises(TombstonesUnusable, match=why):
        await kept_in(path)


async def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    """A folder, and a link to elsewhere."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("", "link"):
        with pytest.raises(TombstonesUnusable):
            await kept_in(tmp_path / name)


def _no_problem(kind: str, text: str) -> None:
    raise AssertionError(f"{kind}: {text}")
