"""Many definitions cost as much more as they are more: nothing compares each with each."""

from pathlib import Path

from scripts.benchmark.definitions import write_groups
from sidecar.adapters.definitions_directory.loading import load_directory
from tests.support.call_counting import CallCounter

SUB_AGENTS = 9


def calls(folder: Path, groups: int) -> int:
    """Return how many calls it takes to load so many orchestrators, each with nine sub-agents of its own."""
    write_groups(folder, groups, SUB_AGENTS)
    with CallCounter().counting() as counter:
        loaded = load_directory(folder)
    assert len(loaded.prompt_tokens) == groups * (1 + SUB_AGENTS)
    return counter.counted.total() + counter.builtin.total()


def test_four_times_as_many_definitions_take_at_most_four_times_the_work(tmp_path: Path) -> None:
    """Advice on a description looks for the names of all others. The first configuration pays for what is kept."""
    calls(tmp_path / "first", 1)

    few, many = calls(tmp_path / "few", 5), calls(tmp_path / "many", 20)

    assert many <= 4 * few
