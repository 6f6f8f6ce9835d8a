"""The surfaces of the present definitions, flags and rollouts, each made once for everybody who is judged alike."""

from typing import Final

from sidecar.core.binding.bind import BindingRules, judged_slots, surface_for
from sidecar.core.binding.flags import FlagSnapshot
from sidecar.core.binding.judging import CardOf, Judged
from sidecar.core.binding.surface import Surface
from sidecar.core.definitions.card import Card, Catalogue
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.serving import Asker
from sidecar.core.rollout.view import FOLLOWS_FLAGS, RolloutView

KEPT: Final = 256
"""Surfaces; experiment arms are the caller's words, and must not fill the memory."""


class CohortSurfaces:
    """Remembers surfaces until definitions, flags or rollouts are others; all are immutable, so identity says so.

    Args:
        rules: what the operator decided.
        kept: cards of earlier states of the configuration, by digest.
    """

    def __init__(self, rules: BindingRules, kept: CardOf = lambda _: None) -> None:
        """Begin with none."""
        self._rules = rules
        self._kept = kept
        self._made_from: tuple[Catalogue, FlagSnapshot, RolloutView] | None = None
        self._surfaces: dict[tuple[Digest, str, tuple[Judged, ...]], Surface] = {}

    def surface(
        self,
        catalogue: Catalogue,
        orchestrator: Card,
        flags: FlagSnapshot,
        asker: Asker,
        view: RolloutView = FOLLOWS_FLAGS,
    ) -> Surface:
        """Return the surface for `asker`."""
        seen, now = self._made_from, (catalogue, flags, view)
        same = seen is not None and all(before is present for before, present in zip(seen, now, strict=True))
        if not same or len(self._surfaces) >= KEPT:
            self._made_from, self._surfaces = now, {}
        judged = judged_slots(catalogue, orchestrator, flags, view, asker)
        key = (orchestrator.digest, asker.arm, judged)
        if key not in self._surfaces:
            using = (flags, self._rules, self._kept)
            self._surfaces[key] = surface_for(catalogue, orchestrator, judged, asker.arm, using)
        return self._surfaces[key]
