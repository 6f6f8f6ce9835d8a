"""The position of a list's next page, as a token that only the same list accepts.

Layout: base64url of 8 bytes that identify the list and its filters, 8 bytes of a checksum over the whole token, and
the position as JSON. The token contains no secret and needs no key: any sidecar accepts the token of another one. A
changed token, or one with other filters, is rejected.
"""

from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec

from sidecar.core.decoding import base64url, from_base64url, from_json

Place = TypeVar("Place")
LONGEST: Final = 1024
"""Characters of a token; a longer one is rejected without decoding."""
DIGEST: Final = 8
"""Bytes of each of the two hashes in a token."""


class PageTokenInvalid(ValueError):
    """A token cannot be used here. The message has the cause and the remedy."""


def page_token(scope: bytes, place: Any) -> str:
    """Return the token of a position.

    Args:
        scope: the list and its filters.
        place: of the last row of a page; any JSON value.
    """
    of, said = sha256(scope).digest()[:DIGEST], msgspec.json.encode(place)
    return base64url(of + sha256(of + said).digest()[:DIGEST] + said)


def place_of(token: str, scope: bytes, form: type[Place]) -> Place:
    """Return the place that a token encodes. Raises `PageTokenInvalid`."""
    try:
        # Before decoding, so that a huge token costs nothing.
        if len(token) > LONGEST:
            raise ValueError
        parts = from_base64url(token)
        of, check, said = parts[:DIGEST], parts[DIGEST : 2 * DIGEST], parts[2 * DIGEST :]
        # Detects a damaged token. It is no protection against forgery: a place that a client invents shows nothing that
        # the list would not.
        if check != sha256(of + said).digest()[:DIGEST]:
            raise ValueError
        is_other = of != sha256(scope).digest()[:DIGEST]
        place = None if is_other else from_json(said, form)
    except ValueError:
        raise PageTokenInvalid("is not one that this method returned; leave it out for the first page") from None
    # Outside the `try`: a token of other filters is intact, and needs another remedy than a damaged one.
    if place is None:
        raise PageTokenInvalid(
            "belongs to another list or to other filters; send the filters of the first page, or leave the token out"
        )
    return place
