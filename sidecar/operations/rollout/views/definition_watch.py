"""Records new definitions of the configuration, and keeps every card that may still be served."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.cards.card_json import card_of, card_to_json
from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.core.identifiers import Digest, Slot
from sidecar.core.rollout.definition_changes import major_changes, may_be_rolled_out, pending_promotions, seen
from sidecar.core.rollout.step import Actor
from sidecar.operations.ports import Clock, Definitions, Ids
from sidecar.operations.rollout.store.ports import KeptDefinition, RolloutRecorder, RolloutStore, RolloutWrite
from sidecar.operations.rollout.views.snapshot import RolloutViews

CONFIGURATION = "configuration"
"""Actor of changes that the configuration causes."""
TRIES = 5
"""How often the record of one definition is tried at most, because other writes may come first."""


@dataclass(slots=True)
class RecordDefinitions:
    """Records the definitions of the configuration, and keeps the cards that rollouts need in memory.

    Attributes:
        definitions: the loaded configuration.
        store: stores rollouts and cards.
        views: refreshed as soon as something new is recorded.
        clock, ids: for recorded events.
        recorder: receives failures.
        serve_at_once: whether a definition without a flag, alone in an empty slot, immediately serves every user.
    """

    definitions: Definitions
    store: RolloutStore
    views: RolloutViews
    clock: Clock
    ids: Ids
    recorder: RolloutRecorder
    serve_at_once: bool = field(kw_only=True)
    _recorded: Catalogue | None = field(default=None, init=False)  # the last one whose definitions are all recorded
    _kept: dict[Digest, Card] = field(default_factory=dict, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def card(self, digest: Digest) -> Card | None:
        """Return a card that was fetched for a rollout; reads memory only."""
        return self._kept.get(digest)

    def look_soon(self) -> None:
        """Start the next pass now, because the configuration has changed."""
        self._changed.set()

    async def run(self, pause: Callable[[], float] = lambda: 1.0) -> None:
        """Make passes periodically; the supervisor owns this loop."""
        while True:
            await self.look()
            try:
                async with asyncio.timeout(pause()):
                    await self._changed.wait()
            except TimeoutError:
                pass
            # After the wait: a change during the pass has set the event, and the next pass begins at once.
            self._changed.clear()

    async def look(self) -> None:
        """Make one pass; a later pass repeats what the store did not accept."""
        try:
            catalogue = self.definitions.current()
            if catalogue is not None and catalogue is not self._recorded:
                for slot in catalogue.slots:
                    await self._record_slot(catalogue, slot)
                # Before `_recorded` is set and before the report: the view must contain the rollouts that this pass has
                # written.
                await self.views.look()
                # Only after every slot: if the store fails in between, the next pass repeats all of them. `seen`
                # changes nothing for a definition that is recorded already.
                self._recorded = catalogue
                view = self.views.current()
                waiting, changed = pending_promotions(catalogue, view), major_changes(catalogue, view)
                self.recorder.definitions_seen(catalogue.agent_definition_version, waiting, changed)
            await self.fetch(self.views.served_digests())
        except StoreUnavailable:
            self.recorder.anomaly("definitions_not_recorded", "the store does not answer; new definitions wait")

    async def _record_slot(self, catalogue: Catalogue, slot: Slot) -> None:
        cards = [catalogue.cards[definition_id] for definition_id in catalogue.slots[slot]]
        for card in cards:
            kept = KeptDefinition(
                card.digest, card.definition.id, slot, card.commit, card_to_json(card), self.clock.now()
            )
            # Before the rollout names the digest: another replica must be able to load every definition that it serves.
            await self.store.keep_definition(kept)
            if may_be_rolled_out(catalogue, card):
                await self._record_definition(slot, card, at_once=self.serve_at_once and len(cards) == 1)

    async def _record_definition(self, slot: Slot, card: Card, *, at_once: bool) -> None:
        for _ in range(TRIES):
            rollout = await self.store.rollout(slot)
            by = Actor(
                actor=CONFIGURATION,
                reason="loaded from the configuration",
                request_id=self.ids.new("seen"),
                at=self.clock.now(),
            )
            change = seen(rollout, slot, card, by, at_once=at_once)
            # Nothing to write: the record knows this definition already, as in most passes.
            if not change.events:
                return
            write = RolloutWrite(
                slot=slot,
                expected_revision=rollout.revision if rollout else 0,
                rollout=change.rollout,
                events=change.events,
            )
            try:
                await self.store.write(write)
            except RevisionConflict:
                continue  # another replica or an operator wrote first
            return
        self.recorder.anomaly("definitions_not_recorded", f"{slot} is changed all the time")

    async def fetch(self, digests: frozenset[Digest]) -> None:
        """Load every card that a bind may select into memory. Raises `StoreUnavailable`."""
        for digest in sorted(digests):
            # Cards never change under a digest, so a card in memory is never outdated.
            if digest in self._kept or self.definitions.card_by_digest(digest) is not None:
                continue
            kept = await self.store.definition(digest)
            if kept is None:
                self.recorder.anomaly("definition_lost", f"{digest} is to be served and is kept nowhere")
                continue
            card = card_of(kept.card_json, digest)
            if card is None:
                self.recorder.anomaly("definition_lost", f"{digest} is kept with another content, or cannot be read")
                continue
            self._kept[digest] = card
