"""What holds up a decommission: open turns, and a record or a configuration that cannot say what is in use."""

from datetime import timedelta
from typing import Any

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.errors import StoreUnavailable
from tests.support.decommissions import (
    STEPS,
    begin,
    configuration,
    fields_of,
    listed,
    loaded,
    rewards,
    rolled_back,
    shop,
)
from tests.support.operators import an_operated_sidecar


class Record(MemoryStore):
    """A record that may be away."""

    away = False

    async def open_turns(self, limit: int, before: Any = None) -> Any:
        """Return turns, or fail."""
        if self.away:
            raise StoreUnavailable("the record is away", retry_after=timedelta(seconds=1))
        return await super().open_turns(limit, before)


async def test_no_step_is_taken_while_a_turn_is_bound_to_it() -> None:
    """A turn was bound before the rollback: neither begin nor a step until it has ended."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await bench.promoted(ramp=9999)
        bound = await bench.sidecar.bind(principal="user-20")
        assert "ask_shop" in [tool.name for tool in bound.surface.sub_agent_tools]
        await bench.step("RollBack")
        begun_too_early = await bench.refused("BeginDecommission")
        await bench.sidecar.end(bound)
        await begin(bench)

    assert begun_too_early.reason == "TRANSITION_REFUSED"
    assert "open turns are bound to shop: 1; wait until" in begun_too_early.message


async def test_a_turn_that_was_bound_to_an_earlier_content_of_it_counts_too() -> None:
    """Its entry was marked deprecated in between, which is a minor revision: another digest of the same definition."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await bench.promoted(ramp=9999)
        [digest] = [each.digest for each in (await bench.status()).definitions]
        bound = await bench.sidecar.bind(principal="user-20")
        await bench.step("RollBack")
        await loaded(bench, configuration(shop(deprecated=True), rewards()))
        [revised] = [each.digest for each in (await bench.status()).definitions]
        begun_too_early = await bench.refused("BeginDecommission")
        await bench.sidecar.end(bound)
        await begin(bench)

    assert revised != digest
    assert "open turns are bound to shop: 1; wait until" in begun_too_early.message


async def test_a_record_that_cannot_say_which_turns_are_open_holds_everything() -> None:
    """Away: begin is neither refused nor done, and the same request is answered once the record is back."""
    store = Record()
    async with an_operated_sidecar(shop(), rewards(), store=store) as bench:
        await rolled_back(bench)
        store.away = True
        held = await bench.refused("BeginDecommission", header={"request_id": "r-held"})
        before = (await bench.store.rollouts())[-1]
        store.away = False
        begun = await bench.step("BeginDecommission", header={"request_id": "r-held"})

    assert held.reason == "STORE_UNAVAILABLE"
    assert all(each.decommission is None for each in before.definitions.values())
    assert (begun.changed, begun.repeated) == (True, False)


async def test_a_configuration_that_was_never_loaded_holds_every_step() -> None:
    """Nobody can say what it still names."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        await begin(bench)
        bench.sidecar.definitions.load(None)
        refused = await bench.refused("TakeDecommissionStep", **fields_of(STEPS[0]))
        [status] = await listed(bench)

    assert "it has not been loaded" in refused.message
    assert "cannot be found out" in status.remaining[0]
