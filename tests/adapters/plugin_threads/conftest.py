"""A thread of a plugin, and what is told of it."""

from collections.abc import Iterator

import pytest

from sidecar.adapters.plugin_threads.thread import PluginThread


class Told(list[tuple[str, str]]):
    """The problems that were reported."""

    def anomaly(self, kind: str, detail: str) -> None:
        """Keep one."""
        self.append((kind, detail))


@pytest.fixture
def told() -> Told:
    """Nothing yet."""
    return Told()


@pytest.fixture
def thread(told: Told) -> Iterator[PluginThread]:
    """A thread, which ends with the test."""
    made = PluginThread("gate-client mine", told.anomaly)
    made.users = 1
    yield made
    made.leave()
