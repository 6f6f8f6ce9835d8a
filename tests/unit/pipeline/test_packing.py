"""Test files go to the workers so that all workers end at about the same time."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer

from tests.support.packing import LongestFirst, keep, scope_of


@dataclass(eq=False)
class Worker:
    """Stands for a process: it notes what it is handed."""

    sent: list[str] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)
    shutting_down: bool = False
    gateway: Any = field(default_factory=lambda: SimpleNamespace(id="gw"))

    def send_runtest_some(self, indices: list[int]) -> None:
        """Take tests."""
        self.sent += (self.collected[index] for index in indices)

    def shutdown(self) -> None:
        """Get nothing any more."""
        self.shutting_down = True


def packed(workers: int, files: Mapping[str, int], seconds: Mapping[str, float]) -> tuple[LongestFirst, list[Worker]]:
    """Begin with files of so many tests, in that order; return the scheduler and its workers."""
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(option=option, getvalue=lambda _: ["popen"] * workers)
    scheduler: Any = LongestFirst(config, Producer("none", enabled=False), seconds)
    collected = [f"{file}::test_{number}" for file, tests in files.items() for number in range(tests)]
    nodes = [Worker(collected=collected) for _ in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
    for node in nodes:
        scheduler.add_node_collection(node, collected)
    scheduler.schedule()
    return scheduler, nodes


def test_nothing_of_any_length_waits_behind_a_long_test() -> None:
    """Two workers have the two longest files, and behind each stands the shortest that is left, not the third."""
    seconds = {"a.py": 60.0, "b.py": 50.0, "c.py": 40.0}
    _, (one, other) = packed(2, dict.fromkeys(("a.py", "b.py", "c.py", "d.py", "e.py", "f.py"), 1), seconds)

    assert one.sent == ["a.py::test_0", "f.py::test_0"]
    assert other.sent == ["b.py::test_0", "e.py::test_0"]


def test_whoever_has_run_its_long_test_gets_the_longest_that_is_left() -> None:
    """The third file goes to the worker that is free first."""
    seconds = {"a.py": 60.0, "b.py": 50.0, "c.py": 40.0}
    scheduler, (one, other) = packed(2, dict.fromkeys(("a.py", "b.py", "c.py", "d.py", "e.py", "f.py"), 1), seconds)
    node: Any = other
    scheduler.mark_test_complete(node, node.collected.index("b.py::test_0"))

    assert other.sent == ["b.py::test_0", "e.py::test_0", "c.py::test_0"]
    assert one.sent == ["a.py::test_0", "f.py::test_0"]


def test_a_file_stays_with_one_worker() -> None:
    """Whatever its length."""
    _, (one, other) = packed(2, {"a.py": 3, "b.py": 3, "c.py": 3}, {"a.py": 60.0})

    assert one.sent == [f"a.py::test_{number}" for number in range(3)]
    assert other.sent == [f"b.py::test_{number}" for number in range(3)]


@pytest.mark.parametrize(
    ("node_id", "scope"),
    [
        ("tests/rpc/test_x.py::TestY::test_z[a::b]", "tests/rpc/test_x.py"),
        ("tests/architecture/test_names.py::test_x", "tests/architecture/"),
        ("tests/architecture/test_sizes.py::test_y", "tests/architecture/"),
    ],
)
def test_what_reads_all_syntax_trees_is_one_scope(node_id: str, scope: str) -> None:
    """Else each worker would parse a thousand files; everything else goes by file."""
    assert scope_of(node_id) == scope


def test_the_parts_of_a_run_write_their_durations_into_one_file(tmp_path: Path) -> None:
    """Each its own lines, the longest first; what is short has none, and what is gone loses its line."""
    kept = tmp_path / "durations.json"
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    keep({"a.py": 2.04, "gone.py": 3.0}, tmp_path, kept)
    keep({"b.py": 61.0, "short.py": 0.2}, tmp_path, kept)
    assert list(json.loads(kept.read_text()).items()) == [("b.py", 61.0), ("a.py", 2.0)]
