"""Definitions and flags that a test may replace, and what it has promoted of them."""

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.files.problems import Problem
from sidecar.core.definitions.resolve import LoadedCatalogue
from sidecar.core.identifiers import DefinitionId, Digest
from sidecar.core.rollout.view import RolloutView
from tests.support.builders import FixedFlags
from tests.support.promoted import promoted


class ScriptedDefinitions:
    """A configuration that a test may replace; counts how often it is read."""

    def __init__(self, catalogue: Catalogue | None) -> None:
        """Begin with one, or with none loaded."""
        self._catalogue = catalogue
        self._cards: dict[Digest, Card] = {}
        self._promoted = RolloutView()
        self.reads = 0
        self.problems: tuple[Problem, ...] = ()
        if catalogue is not None:
            self.load(catalogue)

    def load(self, catalogue: Catalogue | None) -> None:
        """Replace it, or have none loaded; earlier cards stay known by digest."""
        self._catalogue = catalogue
        if catalogue is not None:
            self._cards.update({card.digest: card for card in catalogue.cards.values()})
            self._promoted = promoted(catalogue)

    def promoted(self) -> RolloutView:
        """Return rollouts in which the newest has been promoted, uncounted."""
        return self._promoted

    def current(self) -> Catalogue | None:
        """Return the newest."""
        self.reads += 1
        return self._catalogue

    async def validated(self) -> LoadedCatalogue:
        """Return what the validator says of the newest; `problems` are errors."""
        return LoadedCatalogue(None if self.problems else self._catalogue, self.problems, {})

    def forget(self, digest: Digest) -> None:
        """Let a card of an earlier state go, as a restart does."""
        del self._cards[digest]

    def current_card(self, definition_id: str) -> Card:
        """Return a card of the newest, uncounted."""
        assert self._catalogue is not None
        return self._catalogue.cards[DefinitionId(definition_id)]

    def card_by_digest(self, digest: Digest) -> Card | None:
        """Return a card that was ever loaded."""
        return self._cards.get(digest)


class ScriptedFlags:
    """Flags that a test may switch; counts how often the snapshot is taken."""

    def __init__(self) -> None:
        """Begin with all off."""
        self.on: list[str] = []
        self.unreachable: list[str] = []
        self.reads = 0

    def current(self) -> FixedFlags:
        """Return the present snapshot, which later switches leave as it is."""
        self.reads += 1
        return FixedFlags(tuple(self.on), tuple(self.unreachable))
