"""Replicas say which turns they have bound; what one that died said last counts as long as a turn may last."""

from datetime import timedelta
from typing import Final

from sidecar.core.identifiers import Digest
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.operations.rollout.store.replicas import PinnedTurnCount
from tests.adapters.rollouts.bench import RolloutBench

SHOP, REWARDS = Digest("sha256:shop"), Digest("sha256:rewards")
LASTING: Final = timedelta(minutes=15)


def pinned(**turns: int) -> PinnedTurnCount:
    """Return so many turns of `shop` and `rewards`."""
    return PinnedTurnCount({Digest(f"sha256:{name}"): count for name, count in turns.items()}, LASTING)


async def said(store: RolloutStore) -> dict[str, dict[Digest, int]]:
    """Return what the others say, by replica."""
    return {each.instance: dict(each.pinned) for each in await store.elsewhere(LASTING)}


class PinnedRules:
    """Cases of turns that are bound somewhere."""

    async def test_what_a_replica_has_bound_is_seen_by_the_others(self, bench: RolloutBench) -> None:
        """With the version that it shows; its own are nothing new to it. In a file, a later process is another one."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            await one.show(3, bench.clock.now(), pinned(shop=2))
            await one.show(4, bench.clock.now(), pinned(shop=1, rewards=7))

            assert await said(two) == {"one": {SHOP: 1, REWARDS: 7}}
            assert await said(one) == {}
            assert [each.version for each in await two.elsewhere(LASTING)] == [4]
            assert [each.alive for each in await two.elsewhere(LASTING)] == [bench.shared]

    async def test_turns_that_come_and_go_are_told_with_the_next_sign_of_life(self, bench: RolloutBench) -> None:
        """The version stays; once the last one has ended, nothing is pinned any more."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            for turns in (pinned(shop=1), pinned(shop=2), pinned()):
                await one.show(3, bench.clock.now(), turns)
                await bench.silence("one", 6)
            await one.show(3, bench.clock.now(), pinned())

            assert await said(two) == {"one": {}}

    async def test_what_a_replica_that_died_said_last_counts_as_long_as_a_turn_may_last(
        self, bench: RolloutBench
    ) -> None:
        """Ten minutes later it is listed no more, and counts; then its tokens are good for nothing."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            await one.show(3, bench.clock.now(), pinned(shop=2))
            await bench.silence("one", 600)
            await two.show(3, bench.clock.now(), pinned(rewards=1))

            assert await said(two) == {"one": {SHOP: 2}}
            assert "one" not in [each.instance for each in await two.replicas()]
            assert not (await two.elsewhere(LASTING))[0].alive
            await bench.silence("one", 301)
            assert await said(two) == {}

    async def test_as_many_turns_as_before_are_told_again_so_that_the_newest_of_them_counts(
        self, bench: RolloutBench
    ) -> None:
        """One ended and another one was bound within a moment: the number is the same, the end is later."""
        async with bench:
            one, two = await bench.open("one"), await bench.open("two")
            await one.show(3, bench.clock.now(), pinned(shop=1))
            await bench.silence("one", 600)
            await one.show(3, bench.clock.now(), pinned(shop=1))
            await bench.silence("one", 600)

            assert await said(two) == {"one": {SHOP: 1}}
