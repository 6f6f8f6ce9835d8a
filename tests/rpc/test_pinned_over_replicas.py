"""A decommission waits for the turns of every replica, whichever is asked; also for those of one that has died."""

from datetime import timedelta
from typing import Final

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.identifiers import Digest, InstanceId
from sidecar.operations.rollout.store.replicas import PinnedTurnCount
from tests.support.decommissions import begin, listed, rewards, rolled_back, shop
from tests.support.operators import OperatedSidecar, an_operated_sidecar

LIFETIME: Final = timedelta(minutes=15)
"""Of a turn, unless the settings say otherwise."""
DYING: Final = timedelta(seconds=11)
"""A replica that has said nothing for so long counts as dead; until then it may have bound turns."""


class OtherReplica:
    """Another sidecar over the same store, as far as it says something."""

    def __init__(self, bench: OperatedSidecar, name: str = "the-other") -> None:
        """Begin with nothing said."""
        self._bench = bench
        self._store = MemoryRollouts(bench.clock, bench.contents, InstanceId(name))

    async def shows(self, digest: Digest, turns: int, *, behind: bool = False) -> None:
        """Say that its binds show the newest version, or the one before, and that so many turns are bound."""
        version = await self._store.version() - behind
        await self._store.show(
            version, self._bench.clock.now(), PinnedTurnCount({digest: turns} if turns else {}, LIFETIME)
        )

    async def hears(self) -> dict[str, dict[Digest, int]]:
        """Return what it knows of the turns of the others."""
        return {each.instance: dict(each.pinned) for each in await self._store.elsewhere(LIFETIME)}


async def pinned_in_list(bench: OperatedSidecar) -> int:
    """Return what `list` says of `shop`."""
    [facts] = [each for each in (await bench.status()).definitions if each.definition_id == "shop"]
    return facts.pinned_turns


async def test_begin_is_refused_for_turns_of_another_replica_that_have_called_nothing_yet() -> None:
    """Two there: `list` says two, begin is refused; once they have ended it is done."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        digest, other = await rolled_back(bench), OtherReplica(bench)
        await other.shows(digest, 2)
        refused, seen = await bench.refused("BeginDecommission"), await pinned_in_list(bench)
        await other.shows(digest, 0)
        begun = await begin(bench)

    assert "open turns are bound to shop: 2; wait until" in refused.message
    assert (seen, begun.changed) == (2, True)


async def test_turns_here_and_at_another_replica_are_added_and_told_to_it() -> None:
    """One here and two there; the other one hears of ours with the next look."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await bench.promoted(ramp=9999)
        other = OtherReplica(bench)
        bound = await bench.sidecar.bind(principal="user-20")
        await bench.step("RollBack")
        [facts] = [each for each in (await bench.status()).definitions if each.definition_id == "shop"]
        await other.shows(Digest(facts.digest), 2)
        refused = await bench.refused("BeginDecommission")
        heard = await other.hears()
        await bench.sidecar.end(bound)
        await bench.rollout.views.look()
        after = await other.hears()

    assert "open turns are bound to shop: 3;" in refused.message
    assert [turns[Digest(facts.digest)] for turns in heard.values()] == [1]
    assert [dict(turns) for turns in after.values()] == [{}]


async def test_turns_of_a_replica_that_died_count_until_none_of_them_can_be_open() -> None:
    """It was killed with one turn: its token is good at the others, for as long as a turn may last."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        digest = await rolled_back(bench)
        await OtherReplica(bench).shows(digest, 1)
        bench.clock.time += LIFETIME
        refused = await bench.refused("BeginDecommission")
        bench.clock.time += DYING
        begun = await begin(bench)

    assert "open turns are bound to shop: 1;" in refused.message
    assert begun.changed


async def test_begin_waits_for_every_living_replica_to_show_that_nobody_is_bound_any_more() -> None:
    """One still shows the state before: it may be binding a turn right now. Dead, it binds nobody."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        digest, other = await rolled_back(bench), OtherReplica(bench)
        await other.shows(digest, 0, behind=True)
        refused = await bench.refused("BeginDecommission")
        bench.clock.time += 2 * DYING
        begun = await begin(bench)

    assert refused.reason == "TRANSITION_REFUSED"
    assert "not every replica shows yet that shop serves no user: the-other;" in refused.message
    assert begun.changed


async def test_a_step_waits_for_turns_of_another_replica_too() -> None:
    """It was cut off when the decommission began, and has bound a turn meanwhile."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        digest, other = await rolled_back(bench), OtherReplica(bench)
        await begin(bench)
        await other.shows(digest, 1)
        refused = await bench.refused("TakeDecommissionStep", step=1)
        [status] = await listed(bench)

    assert "open turns are bound to shop: 1;" in refused.message
    assert status.pinned_turns == 1
