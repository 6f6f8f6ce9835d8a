"""Cards that are in no memory any more are read by digest: once, within a time, and believed only if they are it."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.cards.card_json import card_to_json
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import Digest
from sidecar.operations.rollout.store.ports import KeptDefinition
from sidecar.operations.rollout.views.definition_watch import RecordDefinitions
from sidecar.operations.rollout.views.kept_definitions import MOST_FETCHED, DefinitionCache
from tests.support.builders import a_card, a_catalogue
from tests.support.harness import KeepingRecorder
from tests.support.scripted_configuration import ScriptedDefinitions

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LOADED = a_card("shop")


class KeptCards:
    """A store that has cards, and answers when it may."""

    def __init__(self, *cards: Card) -> None:
        self.rows = {card.digest: self._row(card.digest, card) for card in cards}
        self.asked: list[Digest] = []
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.away = False

    def keep(self, digest: str, card_json: str) -> None:
        """Keep any text under any digest."""
        self.rows[Digest(digest)] = replace_text(self._row(Digest(digest), LOADED), card_json)

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a row, or raise."""
        self.asked.append(digest)
        self.was_asked.set()
        await self.may_answer.wait()
        if self.away:
            raise StoreUnavailable("the store is away")
        return self.rows.get(digest)

    def _row(self, digest: Digest, card: Card) -> KeptDefinition:
        definition = card.definition
        return KeptDefinition(digest, definition.id, definition.slot, card.commit, card_to_json(card), NOW)


def replace_text(row: KeptDefinition, card_json: str) -> KeptDefinition:
    """Return the row with another card."""
    return KeptDefinition(row.digest, row.definition_id, row.slot, row.commit, card_json, row.first_seen_at)


class NothingServed:
    """No rollout needs a card."""

    def card(self, digest: Digest) -> Card | None:
        """Return none."""
        return None


def kept(store: KeptCards, recorder: KeepingRecorder | None = None) -> DefinitionCache:
    """Return the definitions over a configuration that has `LOADED`, and a store."""
    loaded = ScriptedDefinitions(a_catalogue(LOADED))
    seeing = cast("RecordDefinitions", NothingServed())
    return DefinitionCache(loaded, seeing, cast("Any", store), cast("Any", recorder or KeepingRecorder()))


async def test_a_card_of_the_configuration_is_not_asked_for() -> None:
    """It is in memory."""
    store = KeptCards()
    assert await kept(store).fetch(LOADED.digest) == LOADED
    assert store.asked == []


async def test_a_card_is_read_once_however_many_want_it_and_whoever_leaves() -> None:
    """Many turns come back after a restart at the same time; the first of them gives up meanwhile."""
    old = a_card("old")
    store = KeptCards(old)
    store.may_answer.clear()
    definitions = kept(store)
    fetches = [asyncio.ensure_future(definitions.fetch(old.digest)) for _ in range(5)]
    await store.was_asked.wait()
    store.may_answer.set()
    assert await asyncio.gather(*fetches) == [old] * 5
    assert await definitions.fetch(old.digest) == old
    assert definitions.card_by_digest(old.digest) == old
    assert store.asked == [old.digest]


async def test_whoever_reads_may_be_cancelled_and_the_others_are_told_to_try_again() -> None:
    """They must not wait for an answer that nobody reads any more."""
    old = a_card("old")
    store = KeptCards(old)
    store.may_answer.clear()
    definitions = kept(store)
    reads, waits = (asyncio.ensure_future(definitions.fetch(old.digest)) for _ in range(2))
    await store.was_asked.wait()
    reads.cancel()
    with pytest.raises(StoreUnavailable, match="try again"):
        await waits
    store.may_answer.set()
    assert await definitions.fetch(old.digest) == old


async def test_a_store_that_is_away_is_not_taken_for_one_that_has_nothing() -> None:
    """To be tried again, and it is asked again then; a card that nobody kept is none."""
    old = a_card("old")
    store = KeptCards(old)
    store.away = True
    definitions = kept(store)
    with pytest.raises(StoreUnavailable, match="try again") as refused:
        await definitions.fetch(old.digest)
    assert refused.value.retry_after is not None
    store.away = False
    assert await definitions.fetch(old.digest) == old
    assert await definitions.fetch(Digest("sha256:never-kept")) is None


TAMPERED: Final = card_to_json(replace(a_card("another"), digest=Digest("sha256:old")))
"""Says that it is the card, and its content does not hash to that."""


@pytest.mark.parametrize(
    "text",
    ["{", "{}", card_to_json(a_card("another")), TAMPERED],
    ids=["garbage", "no card", "another", "another content"],
)
async def test_what_is_kept_under_a_digest_and_is_not_that_card_is_not_used(text: str) -> None:
    """Reported, and the turn has to be bound again."""
    store, recorder = KeptCards(), KeepingRecorder()
    store.keep("sha256:old", text)
    assert await kept(store, recorder).fetch(Digest("sha256:old")) is None
    assert [kind for kind, _ in recorder.of("anomaly")] == ["definition_lost"]


async def test_cards_that_were_read_do_not_fill_the_memory() -> None:
    """The oldest gives way; it can be read again."""
    cards = [a_card("shop", description=f"Shop number {number}.") for number in range(MOST_FETCHED + 1)]
    store = KeptCards(*cards)
    definitions = kept(store)
    for card in cards:
        await definitions.fetch(card.digest)
    held = [card for card in cards if definitions.card_by_digest(card.digest) is not None]
    assert held == cards[1:]
    assert await definitions.fetch(cards[0].digest) == cards[0]
