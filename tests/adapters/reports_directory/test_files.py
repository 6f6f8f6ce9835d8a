"""Reports as files, in a directory into which others put links."""

import os
import stat
from pathlib import Path

import pytest

from sidecar.adapters.reports_directory import ReportsDirectory, ReportsDirectoryUnusable

PATH = ("turn-1", ".orchestrix", "step-0-result.md")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a directory that nothing may be written to."""
    made = tmp_path / "outside"
    made.mkdir()
    return made


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory for reports."""
    made = tmp_path / "reports"
    made.mkdir()
    return made


async def test_a_report_is_written_for_its_owner_only_and_replaced_whole(directory: Path) -> None:
    """Folders are made; the second report takes the place of the first; nothing else is left."""
    reports = ReportsDirectory(directory)

    await reports.write(PATH, "first, and longer")
    await reports.write(PATH, "second \u00e4")

    file = directory.joinpath(*PATH)
    assert file.read_text(encoding="utf-8") == "second \u00e4"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [each.name for each in file.parent.iterdir()] == ["step-0-result.md"]


@pytest.mark.parametrize("depth", [0, 1])
async def test_a_link_in_place_of_a_folder_is_not_followed(directory: Path, outside: Path, depth: int) -> None:
    """The turn's folder, and the one below it, lead outside: refused, and nothing is there."""
    place = directory.joinpath(*PATH[: depth + 1])
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)

    with pytest.raises(OSError, match=r".+"):
        await ReportsDirectory(directory).write(PATH, "text")

    assert os.listdir(outside) == []


async def test_a_link_in_place_of_the_file_is_replaced_and_not_followed(directory: Path, outside: Path) -> None:
    """The file it points to keeps its contents."""
    victim = outside / "victim"
    victim.write_text("precious", encoding="utf-8")
    file = directory.joinpath(*PATH)
    file.parent.mkdir(parents=True)
    file.symlink_to(victim)

    await ReportsDirectory(directory).write(PATH, "text")

    assert victim.read_text(encoding="utf-8") == "precious"
    assert not file.is_symlink()
    assert file.read_text(encoding="utf-8") == "text"


async def test_what_cannot_be_written_leaves_nothing_half_done(directory: Path) -> None:
    """A folder stands in the place of the file, and a file in the place of a folder."""
    directory.joinpath(*PATH).mkdir(parents=True)
    (directory / "turn-2").write_text("a file", encoding="utf-8")
    reports = ReportsDirectory(directory)

    for path in (PATH, ("turn-2", "a.md")):
        with pytest.raises(OSError, match=r".+"):
            await reports.write(path, "text")

    assert [each.name for each in directory.joinpath(*PATH[:2]).iterdir()] == ["step-0-result.md"]


@pytest.mark.parametrize("path", [(), ("..", "a"), ("a", "b/c"), ("a\0",), ("", "a"), (".",)])
async def test_only_plain_names_are_taken(directory: Path, path: tuple[str, ...]) -> None:
    """The second line of defence: whoever made the path."""
    with pytest.raises(ValueError, match="plain name"):
        await ReportsDirectory(directory).write(path, "text")


def test_a_directory_that_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    """Not there, and a file."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    for bad in (tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(ReportsDirectoryUnusable, match=bad.name):
            ReportsDirectory(bad)


async def test_no_descriptor_is_left_open(directory: Path, outside: Path) -> None:
    """Neither by a report that is written nor by one that is refused."""
    (directory / "turn-2").symlink_to(outside)
    reports = ReportsDirectory(directory)
    await reports.write(PATH, "text")
    before = len(os.listdir("/proc/self/fd"))

    await reports.write(PATH, "text")
    with pytest.raises(OSError, match=r".+"):
        await reports.write(("turn-2", "a.md"), "text")

    assert len(os.listdir("/proc/self/fd")) == before
