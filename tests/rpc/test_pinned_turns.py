"""How many open turns are bound to a definition, here and at other sidecars."""

from sidecar.adapters.record_memory import MemoryStore
from sidecar.operations.rollout.pinned import PinnedTurns
from tests.support.harness import running_sidecar_for_tests


async def test_turns_of_another_sidecar_count_once_they_are_on_record_and_ended_ones_do_not() -> None:
    """Two turns are bound at one sidecar, one of which calls; another sidecar sees that one only."""
    store = MemoryStore()
    async with running_sidecar_for_tests(store=store) as sidecar:
        digest = sidecar.definitions.current_card("shop").digest
        calling, idle = await sidecar.bind(), await sidecar.bind()
        await sidecar.dispatch(calling, "ask_rewards")
        here = PinnedTurns(lambda: sidecar.operations.turns, store)
        elsewhere = PinnedTurns(lambda: (), store)
        counted = (await here.count()).get(digest), (await elsewhere.count()).get(digest)
        await sidecar.end(calling)
        await sidecar.end(idle)
        after = (await here.count()).get(digest), (await elsewhere.count()).get(digest)

    assert counted == (2, 1)
    assert after == (None, None)
