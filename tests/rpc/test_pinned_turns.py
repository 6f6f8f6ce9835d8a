"""How many open turns are bound to a definition, here and at other sidecars."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from sidecar.adapters.record_memory import MemoryStore
from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.executing.stored_record import TurnQuery, TurnRow
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
        [oldest] = await store.turns(TurnQuery())
        newer = [
            msgspec.structs.replace(
                oldest, turn_id=TurnId(f"newer-{number:03}"), began_at=oldest.began_at + timedelta(seconds=number)
            )
            for number in range(1, MOST_ELSEWHERE + 1)
        ]
        elsewhere = PinnedTurns(lambda: (), cast("Any", Pages(store, [*reversed(newer), oldest])), NOBODY, LIFETIME)
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

    def __init__(self, store: MemoryStore, rows: list[TurnRow]) -> None:
        self._store = store
        self._rows = rows

    async def turns(self, query: TurnQuery) -> list[TurnRow]:
        """Return a page, newest first."""
        rows = [row for row in self._rows if query.before is None or (row.began_at, row.turn_id) < query.before]
        return rows[: query.limit]

    async def turn(self, turn_id: TurnId) -> Any:
        """Return a turn; what lies between is not there any more."""
        return None if turn_id.startswith("newer") else await self._store.turn(turn_id)
