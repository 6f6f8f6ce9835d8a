"""Where the next page of a list begins, as a text that only the list that made it takes.

Layout: base64url of 8 bytes that stand for the list and its filters, 8 bytes that stand for all of the token, and the
place as JSON. Nothing in it is secret, and no key is needed: any sidecar takes the token of another one. A token that
was changed, or comes with other filters, is noticed.
"""

from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec

from sidecar.core.decoding import base64url, from_base64url, from_json

Place = TypeVar("Place")
LONGEST: Final = 1024
"""Characters."""
DIGEST: Final = 8
"""Bytes."""


class PageTokenInvalid(ValueError):
    """A token cannot be used here. The message says why, and what to do."""


def page_token(scope: bytes, place: Any) -> str:
    """Return the token of a place.

    Args:
        scope: the list and its filters.
        place: of the last row of a page; anything that is JSON.
    """
    of, said = sha256(scope).digest()[:DIGEST], msgspec.json.encode(place)
    return base64url(of + sha256(of + said).digest()[:DIGEST] + said)


def place_of(token: str, scope: bytes, form: type[Place]) -> Place:
    """Return the place that a token encodes. Raises `PageTokenInvalid`."""
    try:
        if len(token) > LONGEST:
            raise ValueError
        parts = from_base64url(token)
        of, check, said = parts[:DIGEST], parts[DIGEST : 2 * DIGEST], parts[2 * DIGEST :]
        if check != sha256(of + said).digest()[:DIGEST]:
            raise ValueError
        is_other = of != sha256(scope).digest()[:DIGEST]
        place = None if is_other else from_json(said, form)
    except ValueError:
        raise PageTokenInvalid("is not one that this method returned; leave it out for the first page") from None
    if place is None:
        raise PageTokenInvalid(
            "belongs to another list or to other filters; send the filters of the first page, or leave the token out"
        )
    return place
