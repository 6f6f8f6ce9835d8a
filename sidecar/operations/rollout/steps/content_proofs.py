"""Proves before a step that the content which would serve users is available, complete and unchanged.

For `test` to `promote`, the validator of `sidecar validate` checks the present configuration. A step that restores an
earlier definition proves that its content still matches its digest and can be served. Source: DESIGN section 8.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.cards.card_json import card_of, proven
from sidecar.core.definitions.resolve import LoadedCatalogue
from sidecar.core.errors import TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.rollback import cannot_succeed, successor_of
from sidecar.operations.ports import Definitions
from sidecar.operations.rollout.requests import Activate, RollBack, StepRequest, Transition
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.policy.lifecycle import Step

Validates = Callable[[], Awaitable[LoadedCatalogue]]
"""Loads the present configuration, and returns all its problems."""

NOT_WHOLE: Final = "its content is kept nowhere whole, or hashes to another digest"
SHOWN: Final = 3
"""Problems that a refusal names; `sidecar validate` names all."""
LONGEST_LOAD: Final = 20.0
"""Seconds for the validator: a folder on a network may hang."""


class ContentProofs(Struct, frozen=True):
    """Proves that the content of a step exists.

    Attributes:
        definitions: the configuration as last loaded.
        store: has every definition that was ever loaded.
        validate: the validator.
    """

    definitions: Definitions
    store: RolloutStore
    validate: Validates

    async def prove(self, asked: StepRequest, rollout: SlotRollout, facts: DefinitionFacts) -> None:
        """Prove that the content which `asked` requires exists.

        Raises:
            TransitionRefused: it cannot be proven; the message says why, and what to do.
            StoreUnavailable: the store did not answer.
        """
        match asked:
            case Transition(step=Step.PROMOTE):
                await self._prove_configured(facts)
            case RollBack(to=named):
                # Only the definition that serves after the rollback needs a proof. The one that is withdrawn may be
                # broken: that can be the reason for the rollback.
                target = successor_of(rollout, facts, named)
                if target is not None and not await self._servable(target.digest):
                    raise cannot_succeed(rollout, facts, target.digest, NOT_WHOLE)
            case Activate() if not await self._servable(facts.digest):
                raise TransitionRefused(
                    f"{facts.definition_id} cannot serve: {NOT_WHOLE}; bring its entry back as it was",
                    metadata={"digest": facts.digest},
                )
            case _:
                pass

    async def _prove_configured(self, facts: DefinitionFacts) -> None:
        """Prove that the configuration is valid and has exactly this definition."""
        try:
            async with asyncio.timeout(LONGEST_LOAD):
                loaded = await self.validate()
        except TimeoutError:
            raise TransitionRefused(f"the configuration could not be read within {LONGEST_LOAD:g} s") from None
        if loaded.catalogue is None:
            shown = "; ".join(problem.render() for problem in loaded.errors[:SHOWN])
            raise TransitionRefused(f"the configuration is not valid, see `sidecar validate`: {shown}")
        # A valid configuration is not enough: it may have changed since the definition was registered.
        if all(card.digest != facts.digest for card in loaded.catalogue.cards.values()):
            raise TransitionRefused(
                f"the configuration does not have {facts.definition_id} with that content (any more): promote what it"
                " has, or bring it back",
                metadata={"digest": facts.digest},
            )

    async def _servable(self, digest: Digest) -> bool:
        """Return whether a definition can be served, from the configuration or from its stored copy."""
        loaded = self.definitions.card_by_digest(digest)
        # The loaded copy first, which needs no store. Both copies are hashed again: a digest that is only stored proves
        # nothing.
        return (loaded is not None and proven(loaded)) or await self._stored_card(digest) is not None

    async def _stored_card(self, digest: Digest) -> Card | None:
        kept = await self.store.definition(digest)
        return None if kept is None else card_of(kept.card_json, digest)
