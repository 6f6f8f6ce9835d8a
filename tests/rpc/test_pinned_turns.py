"""How many open turns are bound to a definition, here and at other sidecars."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from sidecar.adapters.record_memory import MemoryStore
from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.identifiers import TurnId
from sidecar.operations.rollout.views.pinned_turns import MOST_ELSEWHERE, PinnedTurns
from tests.support.harness import running_sidecar_for_tests
from tests.support.second_place import SettableClock

LIFETIME = timedelta(minutes=15)
NOBODY = MemoryRollouts(SettableClock(datetime(2026, 3, 1, tzinfo=UTC)))
"""No other replica says anything."""


async def test_turns_of_another_sidecar_count_once_they_are_on_record_and_ended_ones_do_not() -> None:
    """Two turns are bound at one sidecar, one of which calls; another sidecar sees that one only."""
    store = MemoryStore()
    async with running_sidecar_for_tests(store=store) as sidecar:
        digest = sidecar.definitions.current_card("shop").digest
        calling, idle = await sidecar.bind(), await sidecar.bind()
        await sidecar.dispatch(calling, "ask_rewards")
        here = PinnedTurns(lambda: sidecar.operations.turns, store, NOBODY, LIFETIME)
        elsewhere = PinnedTurns(lambda: (), store, NOBODY, LIFETIME)
        counted = (await here.count()).get(digest), (await elsewhere.count()).get(digest)
        await sidecar.end(calling)
        await sidecar.end(idle)
        after = (await here.count()).get(digest), (await elsewhere.count()).get(digest)

    assert counted == (2, 1)
    assert after == (None, None)


async def test_what_decommissions_wait_for_counts_open_turns_beyond_the_newest_few() -> None:
    """Two hundred newer turns without the definition lie before the one with it: a table does not see it, this does."""
    store = MemoryStore()
    async with running_sidecar_for_tests(store=store) as sidecar:
        definition = sidecar.definitions.current_card("shop")
        await sidecar.dispatch(await sidecar.bind(), "ask_rewards")
        newer = [TurnId(f"newer-{number:03}") for number in reversed(range(MOST_ELSEWHERE))]
        pages = Pages(store, [*newer, *await store.open_turns(1)])
        elsewhere = PinnedTurns(lambda: (), cast("Any", pages), NOBODY, LIFETIME)
        shown = (await elsewhere.count()).get(definition.digest)
        waited_for = await elsewhere.pinned_to(definition.definition.id)

    assert (shown, waited_for) == (None, 1)


async def test_turns_are_counted_by_digest_and_by_id() -> None:
    """A table is of digests; what is taken away goes by the id, which a turn on record names as well."""
    store = MemoryStore()
    async with running_sidecar_for_tests(store=store) as sidecar:
        card = sidecar.definitions.current_card("shop")
        await sidecar.dispatch(await sidecar.bind(), "ask_rewards")
        here = PinnedTurns(lambda: sidecar.operations.turns, store, NOBODY, LIFETIME)
        elsewhere = PinnedTurns(lambda: (), store, NOBODY, LIFETIME)
        by_digest = [(await each.count()).get(card.digest) for each in (here, elsewhere)]
        by_id = [(await each.count_by_id()).get(card.definition.id) for each in (here, elsewhere)]

    assert (by_digest, by_id) == ([1, 1], [1, 1])


class Pages:
    """A record with many open turns, of which one can be read."""

    def __init__(self, store: MemoryStore, turn_ids: list[TurnId]) -> None:
        self._store = store
        self._turn_ids = turn_ids

    async def open_turns(self, limit: int, before: TurnId | None = None) -> list[TurnId]:
        """Return a page, newest first."""
        begin = 0 if before is None else self._turn_ids.index(before) + 1
        return self._turn_ids[begin : begin + limit]

    async def turn(self, turn_id: TurnId) -> Any:
        """Return a turn; what lies between is not there any more."""
        return None if turn_id.startswith("newer") else await self._store.turn(turn_id)
