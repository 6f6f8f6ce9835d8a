"""The flag backends that come with the sidecar pass the suite that every flag backend has to."""

import os
from pathlib import Path

import pytest

from sidecar.adapters.flags_file import FileFlags, FlagFileProblem
from sidecar_conformance.flag_backend import FlagBackendSuite
from tests.plugins.flag_benches import FileBench, MemoryBench


class TestMemory(FlagBackendSuite):
    """`memory`, whose every fault can be switched on."""

    @pytest.fixture
    def bench(self) -> MemoryBench:
        """Make one."""
        return MemoryBench()


class TestJsonFile(FlagBackendSuite):
    """`file` with JSON; nothing makes an ordinary file hang."""

    closed = frozenset({"hang"})

    @pytest.fixture
    def bench(self, tmp_path: Path) -> FileBench:
        """Make one."""
        return FileBench(tmp_path / "flags.json")


class TestTomlFile(FlagBackendSuite):
    """`file` with TOML."""

    closed = frozenset({"hang"})

    @pytest.fixture
    def bench(self, tmp_path: Path) -> FileBench:
        """Make one."""
        return FileBench(tmp_path / "flags.toml")


async def refusal(path: Path) -> str:
    """Return why the file cannot be read."""
    backend = FileFlags(path, 0.05)
    with pytest.raises(FlagFileProblem) as refused:
        await backend.fetch()
    await backend.close()
    return str(refused.value)


async def test_what_is_no_ordinary_readable_flag_file_is_refused_with_its_path(tmp_path: Path) -> None:
    """A named pipe (which would hang an ordinary open), a huge file, and bytes that are not UTF-8."""
    pipe, huge, bytes_ = tmp_path / "pipe.json", tmp_path / "huge.json", tmp_path / "bytes.json"
    os.mkfifo(pipe)
    huge.write_bytes(b" " * (1024 * 1024 + 1))
    bytes_.write_bytes(b'{"flags": {"\xff": true}}')

    assert await refusal(pipe) == f"{pipe} is not a regular file"
    assert await refusal(huge) == f"{huge} is larger than 1048576 bytes"
    assert await refusal(bytes_) == f"{bytes_} is not UTF-8"


@pytest.mark.parametrize("how", ["in place", "rename", "older time stamp", "link swapped"])
async def test_new_content_is_seen_however_it_came(tmp_path: Path, how: str) -> None:
    """The time stamp says nothing; the content does."""
    first, second, path = tmp_path / "first.json", tmp_path / "second.json", tmp_path / "flags.json"
    first.write_text('{"flags": {"a": true}}')
    second.write_text('{"flags": {"b": true}}')
    path.symlink_to(first) if how == "link swapped" else path.write_bytes(first.read_bytes())
    backend = FileFlags(path, 0.05)
    assert (await backend.fetch()).on == {"a"}

    if how == "rename":
        second.rename(path)
    elif how == "link swapped":
        path.unlink()
        path.symlink_to(second)
    else:
        path.write_bytes(second.read_bytes())
    if how == "older time stamp":
        os.utime(path, (0, 0))
    await backend.changed()

    assert (await backend.fetch()).on == {"b"}
    await backend.close()
