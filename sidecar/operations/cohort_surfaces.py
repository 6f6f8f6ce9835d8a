"""The surfaces of the present definitions and flags, each made once for everybody in its cohort."""

from typing import Final

from sidecar.core.binding.bind import BindingRules, bind
from sidecar.core.binding.flags import FlagSnapshot
from sidecar.core.binding.surface import Surface
from sidecar.core.definitions.card import Card, Catalogue
from sidecar.core.identifiers import Digest

KEPT: Final = 256
"""Surfaces; experiment arms are the caller's words, and must not fill the memory."""


class CohortSurfaces:
    """Remembers surfaces until definitions or flags are others; both are immutable, so their identity says so."""

    def __init__(self, rules: BindingRules) -> None:
        """Begin with none."""
        self._rules = rules
        self._made_from: tuple[Catalogue, FlagSnapshot] | None = None
        self._surfaces: dict[tuple[Digest, str], Surface] = {}

    def surface(self, catalogue: Catalogue, orchestrator: Card, flags: FlagSnapshot, arm: str) -> Surface:
        """Return what `bind` decides."""
        seen = self._made_from
        if seen is None or seen[0] is not catalogue or seen[1] is not flags or len(self._surfaces) >= KEPT:
            self._made_from, self._surfaces = (catalogue, flags), {}
        key = (orchestrator.digest, arm)
        if key not in self._surfaces:
            self._surfaces[key] = bind(catalogue, orchestrator, flags, arm, self._rules)
        return self._surfaces[key]
