"""Rollouts in memory keep every rule."""

from datetime import timedelta

import pytest

from sidecar.adapters.rollout_memory import MemoryRollouts, RolloutsInMemory
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId
from tests.adapters.rollouts.bench import RolloutBench, WholeStore
from tests.adapters.rollouts.building import a_write
from tests.adapters.rollouts.suite import RolloutSuite


class MemoryBench(RolloutBench):
    """Instances that share one object."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self._contents = RolloutsInMemory()

    async def open(self, instance: str) -> WholeStore:
        """Return one more instance."""
        return MemoryRollouts(self.clock, self._contents, InstanceId(instance))

    async def silence(self, instance: str, seconds: float) -> None:
        """Let time pass."""
        self.clock.time += timedelta(seconds=seconds)

    @staticmethod
    def cut_off(store: WholeStore, *, away: bool = True) -> None:
        """Let a store be away, or there again."""
        assert isinstance(store, MemoryRollouts)
        store.away = away


class TestMemory(RolloutSuite):
    """Rollouts in memory keep every rule."""

    @pytest.fixture
    def bench(self) -> RolloutBench:
        """Nothing is kept."""
        return MemoryBench()


async def test_a_store_that_was_told_to_be_away_refuses_and_changes_nothing() -> None:
    """One replica's; the other one goes on."""
    bench = MemoryBench()
    contents = RolloutsInMemory()
    cut_off, other = (MemoryRollouts(bench.clock, contents, InstanceId(name)) for name in ("one", "two"))
    cut_off.away = True
    with pytest.raises(StoreUnavailable):
        await cut_off.write(a_write(1))
    with pytest.raises(StoreUnavailable):
        await cut_off.version()
    assert await other.version() == 0
    cut_off.away = False
    await cut_off.write(a_write(1))
    assert await other.version() == 1
