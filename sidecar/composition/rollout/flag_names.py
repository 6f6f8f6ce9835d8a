"""The names of all flags that a sidecar reads, by backend: for backends that cannot list what they have."""

from collections.abc import Iterator

from sidecar.core.definitions.cards.card import Catalogue
from sidecar.core.flag_states import FlagRoutes
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.view import RolloutView


def flag_names(backend: str, routes: FlagRoutes, catalogue: Catalogue | None, view: RolloutView) -> frozenset[str]:
    """Return the names that `backend` is read for: those of the configuration, and of rollouts that it has dropped."""
    named = (*_of_cards(catalogue), *_of_rollouts(view))
    return frozenset(name for name, vertical in named if name is not None and routes.backend_of(vertical) == backend)


def _of_cards(catalogue: Catalogue | None) -> Iterator[tuple[str | None, Vertical]]:
    for card in () if catalogue is None else catalogue.cards.values():
        definition = card.definition
        for name in (definition.enabled_via_flag, definition.cohort_flag, *(b.feature_gated for b in card.blocks)):
            yield name, definition.vertical


def _of_rollouts(view: RolloutView) -> Iterator[tuple[str | None, Vertical]]:
    for rollout in view.slots.values():
        for facts in rollout.definitions.values():
            yield facts.flag, facts.vertical
            yield facts.cohort_flag, facts.vertical
