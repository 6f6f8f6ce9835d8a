"""The example audit sink passes the suite that every sink has to, and never leaves half a line behind."""

import json
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from sidecar.policy.audit import AuditSink
from sidecar.policy.factory import make_audit_sink
from sidecar_conformance.audit_sink import AuditSinkBench, AuditSinkSuite, SinkFault, an_event
from sidecar_lifecycle_examples.plugin import sidecar_audit_sinks

(SPEC,) = sidecar_audit_sinks()


class FileBench(AuditSinkBench):
    """A file in a directory that comes and goes."""

    def __init__(self, root: Path) -> None:
        self._directory, self._away = root / "audit", root / "away"
        self._directory.mkdir()
        self.file = self._directory / "audit.jsonl"

    @override
    def make(self) -> AuditSink:
        return make_audit_sink(SPEC, {"path": str(self.file)})

    @override
    async def kept(self) -> Sequence[Mapping[str, Any]]:
        text = self.file.read_text("ascii") if self.file.exists() else ""
        return [json.loads(line) for line in text.split("\n") if line]

    @override
    async def misbehave(self, fault: SinkFault) -> None:
        if self._away.exists():
            self._away.rename(self._directory)
        if fault is SinkFault.AWAY:
            self._directory.rename(self._away)


class TestJsonLines(AuditSinkSuite):
    """`jsonl`; nothing makes an ordinary file say no, or hang."""

    closed = frozenset({"refuse", "hang"})

    @pytest.fixture
    def bench(self, tmp_path: Path) -> FileBench:
        """Make one."""
        return FileBench(tmp_path)


async def test_what_a_crash_left_of_a_line_is_written_over(tmp_path: Path) -> None:
    """It was never taken: the event comes again, whole."""
    bench = FileBench(tmp_path)
    await bench.make().take([an_event(1)])
    with bench.file.open("a", encoding="ascii") as file:
        file.write('{"event": "subagent.roll')
    await bench.make().take([an_event(2)])
    assert [one["request_id"] for one in await bench.kept()] == ["request-1", "request-2"]
    assert bench.file.stat().st_mode & 0o777 == 0o600


async def test_a_disk_that_is_full_in_the_middle_of_a_line_takes_nothing(tmp_path: Path) -> None:
    """Nothing of the batch stays; the next one is taken whole."""
    bench = FileBench(tmp_path)
    sink = bench.make()
    await sink.take([an_event(1)])
    with no_file_longer_than(bench.file.stat().st_size + 10), pytest.raises(OSError, match="File too large"):
        await sink.take([an_event(2)])
    assert [one["request_id"] for one in await bench.kept()] == ["request-1"]
    await sink.take([an_event(2), an_event(3)])
    assert [one["request_id"] for one in await bench.kept()] == [f"request-{number}" for number in (1, 2, 3)]


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Let the system refuse what goes beyond, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_file_that_was_moved_away_is_made_anew(tmp_path: Path) -> None:
    """Rotation needs no signal."""
    bench = FileBench(tmp_path)
    sink = bench.make()
    await sink.take([an_event(1)])
    bench.file.rename(tmp_path / "old.jsonl")
    await sink.take([an_event(2)])
    assert [one["request_id"] for one in await bench.kept()] == ["request-2"]
