"""The configuration, with the cards of earlier versions that rollouts and open turns still need.

A turn keeps the version of a sub-agent that it was bound to, even if the configuration changes. Binds read only the
memory here; `fetch` reads a missing card from the store, for restored turns and for rollouts.
"""

from datetime import timedelta
from typing import Final

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.cards.card_json import card_of
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import Digest
from sidecar.operations.first_result import FirstResult
from sidecar.operations.ports import Definitions
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.store.ports import RolloutRecorder, RolloutStore
from sidecar.operations.rollout.views.definition_watch import RecordDefinitions

READ_SECONDS: Final = 1.0
"""Seconds for one read of the store."""
MOST_FETCHED: Final = 256
"""The most fetched cards, besides those of the configuration and of served rollouts."""


class DefinitionCache:
    """The port `Definitions`: the loaded configuration, and the definitions that are stored by digest.

    Args:
        loaded: the configuration.
        seeing: has the cards that rollouts serve in memory.
        store: has every card that was ever recorded.
        recorder: receives lost definitions.
    """

    def __init__(
        self, loaded: Definitions, seeing: RecordDefinitions, store: RolloutStore, recorder: RolloutRecorder
    ) -> None:
        self._loaded = loaded
        self._seeing = seeing
        self._store = store
        self._recorder = recorder
        self._fetched: dict[Digest, Card] = {}
        self._reading: dict[Digest, FirstResult[Card | StoreUnavailable | None]] = {}

    def current(self) -> Catalogue | None:
        """Return the newest valid configuration."""
        return self._loaded.current()

    def card_by_digest(self, digest: Digest) -> Card | None:
        """Return a card of this configuration, of an earlier one, or of the record, if it is in memory."""
        return self._loaded.card_by_digest(digest) or self._seeing.card(digest) or self._fetched.get(digest)

    async def fetch(self, digest: Digest) -> Card | None:
        """Return a card, read from the store if it is not in memory; None: no card is stored. Binds never call this.

        Concurrent requests for the same card share one read.

        Raises:
            StoreUnavailable: the store did not answer; try again.

        Source: PF1-FR-8, DESIGN section 4.
        """
        card = self.card_by_digest(digest)
        if card is not None:
            return card
        reading = self._reading.get(digest)
        if reading is None:
            # No await between the look-up above and this line, so two callers cannot both start a read.
            reading = self._reading[digest] = FirstResult()
            await self._read(digest, reading)
        result = await reading.wait()
        if isinstance(result, StoreUnavailable):
            raise result
        return result

    async def _read(self, digest: Digest, reading: FirstResult[Card | StoreUnavailable | None]) -> None:
        """Read a card and wake all waiters, even when cancelled: otherwise they would wait without end."""
        result: Card | StoreUnavailable | None = _unavailable()
        try:
            result = await self._from_store(digest)
        finally:
            # Before the waiters wake: a caller that comes now must start a new read if this one has failed.
            del self._reading[digest]
            reading.settle(result)

    async def _from_store(self, digest: Digest) -> Card | StoreUnavailable | None:
        kept = await read_within(self._store.definition(digest), READ_SECONDS)
        if isinstance(kept, StoreUnavailable):
            return _unavailable()
        # Unknown is an answer, and not an error: the caller refuses the token, and the client binds again.
        if kept is None:
            return None
        card = card_of(kept.card_json, digest)
        if card is None:
            self._recorder.anomaly("definition_lost", f"{digest} is kept with another content, or cannot be read")
            return None
        # The oldest is dropped first. Such cards belong to turns that were bound before the last changes, and are read
        # only a few times.
        while len(self._fetched) >= MOST_FETCHED:
            del self._fetched[next(iter(self._fetched))]
        self._fetched[digest] = card
        return card


def _unavailable() -> StoreUnavailable:
    return StoreUnavailable(
        "a definition that the turn was bound to cannot be read now; try again", retry_after=timedelta(seconds=1)
    )
