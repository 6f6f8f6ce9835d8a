"""A record that changes while it is verified: what a sidecar does meanwhile is no finding."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

from sidecar.adapters.record_memory import MemoryDatabase
from sidecar.core.executing.stored_record import ClosedChild, StoredChild
from sidecar.core.identifiers import InstanceId
from tests.support.record_builders import BEGIN, a_whole_turn
from tests.support.requirement import requirement
from tests.support.second_place import SignedLog

Meanwhile = Callable[[SignedLog], Awaitable[None]]


class ChangingDatabase(MemoryDatabase):
    """Lets something happen once, before the running root or before the children are read."""

    before: str = ""
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def closed_children(self, instance: InstanceId) -> AsyncIterator[ClosedChild]:
        """Go through the links of a running root."""
        await self._happen("closed_children")
        async for link in super().closed_children(instance):
            yield link

    async def children(self) -> AsyncIterator[StoredChild]:
        """Go through all children."""
        await self._happen("children")
        async for child in super().children():
            yield child

    async def _happen(self, what: str) -> None:
        if self.before == what and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()


async def another_turn(log: SignedLog) -> None:
    """Two more children are closed, and signed."""
    await log.database.commit(a_whole_turn("turn-9", ("shop", "rewards"), at=900))
    await log.checkpointing().look()


async def removal(log: SignedLog) -> None:
    """Retention removes the first turn."""
    log.clock.time = BEGIN + timedelta(days=90, seconds=16)
    retention = log.retention()
    await retention.remove()
    assert retention.children == 2


@requirement("SX-38")
@pytest.mark.parametrize("before", ["closed_children", "children"])
@pytest.mark.parametrize("meanwhile", [another_turn, removal])
async def test_what_a_sidecar_does_meanwhile_is_no_finding(before: str, meanwhile: Meanwhile) -> None:
    """Children are closed, or removed, between two parts of the reading."""
    log = SignedLog()
    await log.turns(1, 3)
    database = log.database = ChangingDatabase(log.database.contents)
    database.before, database.meanwhile = before, lambda: meanwhile(log)

    assert await log.findings(with_place=False) == []
    assert database.meanwhile is None
