"""The surfaces for the present definitions, flags and rollouts; users with the same decisions share one surface."""

from typing import Final

from sidecar.core.binding.bind import BindingRules, cohort_of, evaluated_slots, surface_of, tools_of
from sidecar.core.binding.candidates import CardOf, SlotCandidates
from sidecar.core.binding.surface import Surface
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.flag_states import FlagSnapshot
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.ramp_membership import RampBoundary, Sides, boundaries_of, membership_of
from sidecar.core.rollout.serving import BindSubject
from sidecar.core.rollout.view import RolloutView

KEPT: Final = 256
"""Surfaces; experiment arms are the caller's words, and must not fill the memory."""
MOST_STANDINGS: Final = 4096
"""Combinations of sides that are remembered; with many ramps there are many, which come to few surfaces."""


class CohortSurfaces:
    """Caches surfaces until definitions, flags or rollouts change, which their identity shows: all are immutable.

    Users on the same sides of all ramps share a decision.

    Args:
        rules: what the operator decided.
        kept: cards of earlier states of the configuration, by digest.
    """

    def __init__(self, rules: BindingRules, kept: CardOf = lambda _: None) -> None:
        self._rules = rules
        self._kept = kept
        self._made_from: tuple[Catalogue, FlagSnapshot, RolloutView] | None = None
        self._divides: dict[Digest, tuple[RampBoundary, ...]] = {}
        self._standing: dict[tuple[Digest, str, Sides], Surface] = {}
        self._surfaces: dict[tuple[Digest, str, tuple[SlotCandidates, ...]], Surface] = {}

    def surface(
        self,
        catalogue: Catalogue,
        orchestrator: Card,
        flags: FlagSnapshot,
        asker: BindSubject,
        view: RolloutView,
    ) -> Surface:
        """Return the surface for `asker`."""
        seen = self._made_from
        if seen is None or seen[0] is not catalogue or seen[1] is not flags or seen[2] is not view:
            self._forget(catalogue, flags, view)
        digest = orchestrator.digest
        divides = self._divides.get(digest)
        if divides is None:
            divides = self._divides[digest] = boundaries_of(orchestrator.definition.sub_agents, view, flags)
        standing = (digest, asker.arm, membership_of(divides, asker.key))
        surface = self._standing.get(standing)
        if surface is None:
            surface = self._judged(catalogue, orchestrator, flags, asker, view)
            self._standing[standing] = surface
        return surface

    def _judged(
        self, catalogue: Catalogue, orchestrator: Card, flags: FlagSnapshot, asker: BindSubject, view: RolloutView
    ) -> Surface:
        if len(self._surfaces) >= KEPT or len(self._standing) >= MOST_STANDINGS:
            self._forget(catalogue, flags, view)
        judged = evaluated_slots(catalogue, orchestrator, flags, view, asker)
        key = (orchestrator.digest, asker.arm, judged)
        if key not in self._surfaces:
            tools = tools_of(catalogue, judged, self._kept)
            cohort = cohort_of(catalogue, orchestrator, flags, asker.arm, tools)
            candidates = tuple(candidate for each in judged for candidate in each.candidates)
            self._surfaces[key] = surface_of(orchestrator, tools, candidates, cohort, self._rules)
        return self._surfaces[key]

    def _forget(self, catalogue: Catalogue, flags: FlagSnapshot, view: RolloutView) -> None:
        self._made_from = (catalogue, flags, view)
        self._divides, self._standing, self._surfaces = {}, {}, {}
