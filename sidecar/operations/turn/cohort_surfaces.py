"""The surfaces for the present definitions, flags and rollouts; users with the same decisions share one surface.

A surface is the frozen list of sub-agents that a turn may call, with its prompt. `bind_turn` takes it from here for
each turn. Almost all turns need one of a few surfaces, so a bind usually only looks a surface up and builds none.
"""

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
"""Surfaces in the cache. Callers choose the names of experiment arms, so without a limit they could fill the memory."""
MAX_MEMBERSHIPS: Final = 4096
"""Combinations of ramp memberships in the cache. With many ramps there are many, but they lead to few surfaces."""


class CohortSurfaces:
    """Caches surfaces until definitions, flags or rollouts change.

    All three are immutable snapshots, so a change is detected by their identity. Users who are on the same side of
    every ramp share a surface.

    Args:
        rules: the operator's settings.
        kept: finds the card of a digest that the present configuration no longer has.
    """

    def __init__(self, rules: BindingRules, kept: CardOf = lambda _: None) -> None:
        self._rules = rules
        self._kept = kept
        self._made_from: tuple[Catalogue, FlagSnapshot, RolloutView] | None = None
        self._boundaries: dict[Digest, tuple[RampBoundary, ...]] = {}
        self._by_membership: dict[tuple[Digest, str, Sides], Surface] = {}
        self._surfaces: dict[tuple[Digest, str, tuple[SlotCandidates, ...]], Surface] = {}

    def surface(
        self,
        catalogue: Catalogue,
        orchestrator: Card,
        flags: FlagSnapshot,
        subject: BindSubject,
        view: RolloutView,
    ) -> Surface:
        """Return the surface for `subject`."""
        sources = self._made_from
        if sources is None or sources[0] is not catalogue or sources[1] is not flags or sources[2] is not view:
            self._forget(catalogue, flags, view)
        digest = orchestrator.digest
        # A bind usually needs only the next two look-ups: on which side of each ramp the user is, and the surface for
        # it.
        boundaries = self._boundaries.get(digest)
        if boundaries is None:
            boundaries = self._boundaries[digest] = boundaries_of(orchestrator.definition.sub_agents, view, flags)
        membership = (digest, subject.arm, membership_of(boundaries, subject.key))
        surface = self._by_membership.get(membership)
        if surface is None:
            surface = self._evaluated(catalogue, orchestrator, flags, subject, view)
            self._by_membership[membership] = surface
        return surface

    def _evaluated(
        self, catalogue: Catalogue, orchestrator: Card, flags: FlagSnapshot, subject: BindSubject, view: RolloutView
    ) -> Surface:
        """Return the surface of a combination of memberships that is not cached; it may lead to a cached surface."""
        # All entries are dropped together. They are cheap to compute again, and an order of use would cost something in
        # each bind.
        if len(self._surfaces) >= KEPT or len(self._by_membership) >= MAX_MEMBERSHIPS:
            self._forget(catalogue, flags, view)
        slots = evaluated_slots(catalogue, orchestrator, flags, view, subject)
        key = (orchestrator.digest, subject.arm, slots)
        if key not in self._surfaces:
            tools = tools_of(catalogue, slots, self._kept)
            cohort = cohort_of(catalogue, orchestrator, flags, subject.arm, tools)
            candidates = tuple(candidate for each in slots for candidate in each.candidates)
            self._surfaces[key] = surface_of(orchestrator, tools, candidates, cohort, self._rules)
        return self._surfaces[key]

    def _forget(self, catalogue: Catalogue, flags: FlagSnapshot, view: RolloutView) -> None:
        # The snapshots themselves and not their ids: the id of a freed snapshot may be that of its successor.
        self._made_from = (catalogue, flags, view)
        self._boundaries, self._by_membership, self._surfaces = {}, {}, {}
