"""The requests of a decommission: their effect on a rollout, and the conditions for them. Source: PF1-FR-6, SX-39.

A step is refused while an open turn of any replica is bound to the definition, and while the loaded configuration
still needs the definition. Missing information refuses the step, too: a record that does not answer, a configuration
that was never loaded, a definition that is stored nowhere.
"""

from datetime import timedelta
from typing import Final

from msgspec import Struct

from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.cards.card_json import card_from_json
from sidecar.core.errors import TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout import decommission
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.leftovers import DecommissionScope, blockers
from sidecar.core.rollout.remedies import REMEDY, Remedy
from sidecar.core.rollout.step import Actor, Change
from sidecar.operations.ports import Definitions
from sidecar.operations.rollout.requests import (
    BeginDecommission,
    DecideDecommission,
    DecommissionRequest,
    TakeDecommissionStep,
    UndoDecommission,
)
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.operations.rollout.views.pinned_turns import PinnedTurns

WINDOW: Final = timedelta(days=90)
"""One quarter. Source: PF1-NFR-5a, TN-93."""


class Decommissioning(Struct, frozen=True):
    """Computes the changes that the requests of a decommission make.

    Attributes:
        definitions: the loaded configuration.
        store: has every definition that was ever loaded.
        pinned: counts open turns.
        window: the time within which a decommission must end.
    """

    definitions: Definitions
    store: RolloutStore
    pinned: PinnedTurns
    window: timedelta = WINDOW

    async def changed(
        self, asked: DecommissionRequest, rollout: SlotRollout, facts: DefinitionFacts, by: Actor
    ) -> Change:
        """Return the change that a request makes to a rollout, after all checks have passed.

        Raises:
            TransitionRefused: the rules refuse it, a turn is bound to the definition, or the configuration needs it.
            StoreUnavailable: the open turns cannot be determined.
        """
        change = _change_by_rules(asked, rollout, facts, by, self.window)
        if change.rollout is not rollout and isinstance(asked, BeginDecommission | TakeDecommissionStep):
            if isinstance(asked, BeginDecommission):
                # Before the count: a replica reports its turns together with its version. Only when all replicas use
                # the newest version can no further turn be bound to the definition.
                await self._refuse_unseen(facts)
            # Also for each step and not only at the begin: a turn that was bound before may have been restored at
            # another replica.
            await self._refuse_pinned(facts)
            if isinstance(asked, TakeDecommissionStep):
                await self._refuse_needed(asked, rollout, facts)
        return change

    async def scope(self, rollout: SlotRollout, facts: DefinitionFacts) -> DecommissionScope | None:
        """Return what a search for leftovers needs; None: it is not known here. Raises `StoreUnavailable`."""
        catalogue, card = self.definitions.current(), await self._card(facts.digest)
        return None if catalogue is None or card is None else DecommissionScope(rollout, facts, card, catalogue)

    async def _refuse_unseen(self, facts: DefinitionFacts) -> None:
        """Refuse while a living replica may still bind the definition because its view is older than the rollback."""
        # Before the replicas: a replica that reports between the two reads can only be newer.
        newest = await self.store.version()
        behind = [each.instance for each in await self.store.replicas() if each.alive and each.version < newest]
        if behind:
            raise TransitionRefused(
                f"not every replica shows yet that {facts.definition_id} serves no user: {', '.join(behind)}; replicas"
                " poll every second: try again in a moment",
                metadata={"replicas": ",".join(behind)},
            )

    async def _refuse_pinned(self, facts: DefinitionFacts) -> None:
        turns = await self.pinned.pinned_to(facts.definition_id)
        if turns:
            raise TransitionRefused(
                f"open turns are bound to {facts.definition_id}: {turns}; wait until they have ended, then ask again",
                metadata={"pinned_turns": str(turns), REMEDY: Remedy.WAIT_FOR_TURNS},
            )

    async def _refuse_needed(self, asked: TakeDecommissionStep, rollout: SlotRollout, facts: DefinitionFacts) -> None:
        """Refuse a step while the configuration still has what the step says was removed."""
        scope = await self.scope(rollout, facts)
        if scope is None:
            raise TransitionRefused(
                f"it cannot be found out what the configuration still holds of {facts.definition_id}: "
                + ("it has not been loaded" if self.definitions.current() is None else "the definition is not kept")
            )
        # Last, because it is the most expensive check, and an operator reads its answer as a list of work.
        needed = blockers(scope, asked.step)
        if needed:
            version = scope.catalogue.agent_definition_version
            raise TransitionRefused(
                f"step {asked.step.label} of {facts.definition_id} has to wait: {'; '.join(needed)} "
                f"(configuration {version}); `sidecar subagent decommission patch` writes the change",
                metadata={REMEDY: Remedy.CLEAN_UP},
            )

    async def _card(self, digest: Digest) -> Card | None:
        """Return a card from memory, or else from the store; None if there is none that can be read."""
        card = self.definitions.card_by_digest(digest)
        if card is not None:
            return card
        kept = await self.store.definition(digest)
        try:
            return None if kept is None else card_from_json(kept.card_json)
        except ValueError:
            return None


def _change_by_rules(
    asked: DecommissionRequest, rollout: SlotRollout, facts: DefinitionFacts, by: Actor, window: timedelta
) -> Change:
    """Return the change that a request makes by the rules alone. Raises `TransitionRefused`."""
    match asked:
        case BeginDecommission():
            return decommission.begin(rollout, facts.digest, window, by)
        case TakeDecommissionStep(step=step, code=code, confirmed=confirmed):
            completion = decommission.StepCompletion(step=step, code=code, confirmed=confirmed)
            return decommission.complete_step(rollout, facts.digest, completion, by)
        case DecideDecommission(matter=matter, choice=choice):
            return decommission.decide(rollout, facts.digest, matter, choice, by)
        case UndoDecommission():
            return decommission.undo(rollout, facts.digest, by)
        case _:
            raise TransitionRefused(f"{type(asked).__name__} is no part of a decommission")
