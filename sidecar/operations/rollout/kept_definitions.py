"""The configuration, with the cards of earlier states that rollouts still need."""

from sidecar.core.definitions.card import Card, Catalogue
from sidecar.core.identifiers import Digest
from sidecar.operations.ports import Definitions
from sidecar.operations.rollout.seeing import SeeDefinitions


class KeptDefinitions:
    """The port `Definitions` over the configuration as loaded and what is kept by digest."""

    def __init__(self, loaded: Definitions, seeing: SeeDefinitions) -> None:
        """Join the parts."""
        self._loaded = loaded
        self._seeing = seeing

    def current(self) -> Catalogue | None:
        """Return the newest valid state."""
        return self._loaded.current()

    def card_by_digest(self, digest: Digest) -> Card | None:
        """Return a card of this state, of an earlier one, or one that is kept on record."""
        return self._loaded.card_by_digest(digest) or self._seeing.card(digest)
