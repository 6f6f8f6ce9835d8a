"""A card as text and back, so that it can be served after the configuration has gone on."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from sidecar.core.definitions.card import Card


def card_to_json(card: Card) -> str:
    """Return the card as JSON text."""
    return msgspec.json.encode(card, enc_hook=_plain).decode()


def card_from_json(text: str) -> Card:
    """Return the card that `card_to_json` wrote; equal to it, digest included. Raises `ValueError`."""
    try:
        return msgspec.json.decode(text, type=Card)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


def _plain(value: Any) -> Any:
    if isinstance(value, MappingProxyType | Mapping):
        return dict(value)
    raise TypeError(f"a card holds a {type(value).__name__}")
