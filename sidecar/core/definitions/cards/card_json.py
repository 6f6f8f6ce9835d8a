"""Converts a card to text and back, so that it can be served after the configuration has changed."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from sidecar.core.decoding import from_json
from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.cards.digest import digest_of_card
from sidecar.core.identifiers import Digest


def card_to_json(card: Card) -> str:
    """Return the card as JSON text."""
    return msgspec.json.encode(card, enc_hook=_plain).decode()


def card_from_json(text: str) -> Card:
    """Return the card that `card_to_json` wrote, with the same digest. Raises `ValueError`."""
    return from_json(text, Card)


def card_of(text: str, digest: Digest) -> Card | None:
    """Return the card that was stored under `digest`; None if it is unreadable or its content has another digest."""
    try:
        card = card_from_json(text)
    except ValueError:
        return None
    # The text has a digest of its own: it must be the requested one, and the content must fit it.
    return card if card.digest == digest and proven(card) else None


def proven(card: Card) -> bool:
    """Return whether the content of a card still has the card's digest."""
    return digest_of_card(card.definition, card.model, card.tools, card.blocks) == card.digest


def _plain(value: Any) -> Any:
    if isinstance(value, MappingProxyType | Mapping):
        # msgspec does not know read-only mappings.
        return dict(value)
    raise TypeError(f"a card holds a {type(value).__name__}")
