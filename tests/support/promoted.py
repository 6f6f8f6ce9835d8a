"""Rollouts of tests that are not about rollouts: everything that is configured was promoted, and ramped to 100 %."""

from datetime import UTC, datetime

from sidecar.core.binding.bind import BindingRules, cohort_of, evaluated_slots, surface_of, tools_of
from sidecar.core.binding.candidates import Flags
from sidecar.core.binding.surface import Surface
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.identifiers import Slot
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.serving import BindSubject
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import RolloutView

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def promoted(catalogue: Catalogue) -> RolloutView:
    """Return rollouts in which every definition is in `promote` at 100 %; of several in a slot the first is active.

    So the two flags of an entry decide who has it, and an entry that names none is served to everybody.
    """
    return RolloutView({slot: _at_100_percent(slot, catalogue) for slot in catalogue.slots})


def promoted_surface(catalogue: Catalogue, flags: Flags, rules: BindingRules, arm: str = "") -> Surface:
    """Return the surface of the orchestrator `concierge` for `user-1`, with everything promoted."""
    orchestrator = next(card for card in catalogue.cards.values() if card.definition.id == "concierge")
    judged = evaluated_slots(catalogue, orchestrator, flags, promoted(catalogue), BindSubject("user-1", arm))
    tools = tools_of(catalogue, judged, lambda _: None)
    candidates = tuple(candidate for each in judged for candidate in each.candidates)
    cohort = cohort_of(catalogue, orchestrator, flags, arm, tools)
    return surface_of(orchestrator, tools, candidates, cohort, rules)


def _at_100_percent(slot: Slot, catalogue: Catalogue) -> SlotRollout:
    facts = [_facts(catalogue.cards[definition_id]) for definition_id in catalogue.slots[slot]]
    definitions = {each.digest: each for each in facts}
    return SlotRollout(slot=slot, revision=1, definitions=definitions, active=facts[0].digest, salt=slot)


def _facts(card: Card) -> DefinitionFacts:
    flag = card.definition.enabled_via_flag
    return DefinitionFacts(
        digest=card.digest,
        definition_id=card.definition.id,
        commit=card.commit,
        vertical=card.definition.vertical,
        shape=card.shape,
        state=LifecycleState.PROMOTE,
        ramp=WHOLE,
        activated_at=LONG_AGO,
        flag=flag,
        flags=FlagPair.NONE if flag is None else FlagPair.ON,
        confirmed_on=flag or "",
        target_recorded=True,
    )
