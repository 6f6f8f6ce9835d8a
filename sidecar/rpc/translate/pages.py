"""Implements the pages of lists, with the same sizes and tokens in every `List` method."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from google.protobuf.message import Message

from sidecar.core.listing.page_tokens import PageTokenInvalid, page_token, place_of
from sidecar.rpc.translate.fields import Fields

Place = TypeVar("Place")
Row = TypeVar("Row")
USUAL: Final = 50
"""Rows of a page if the request names no size."""
MOST: Final = 200
"""The most rows of a page; a request for more gets these."""


class AskedPage(msgspec.Struct, Generic[Place], frozen=True):
    """The requested page.

    Attributes:
        size: the most rows, at most 200; 0: the default.
        after: the position of the last row of the previous page; None: it is the first page.
        scope: the list and its filters. A page token is valid only for these.
    """

    size: int
    after: Place | None
    scope: bytes

    def token(self, place: Sequence[Any] | None) -> str:
        """Return the token of the page after the row at `place`; empty for None, i.e. there is no further page."""
        return "" if place is None else page_token(self.scope, place)


def asked_page(fields: Fields, message: Any, form: type[Place]) -> AskedPage[Place]:
    """Return the requested page, and collect problems of the request.

    Args:
        fields: of the request.
        message: with `page_size` and `page_token`; every other field is a filter.
        form: type of the places of rows.
    """
    scope, after = _scope_of(message), None
    if message.page_size < 0:
        fields.refuse("page_size", f"must not be negative, was {message.page_size}; 0 is the usual number")
    if message.page_token:
        try:
            after = place_of(message.page_token, scope, form)
        except PageTokenInvalid as problem:
            fields.refuse("page_token", str(problem))
    # Not refused: a larger limit of a later version must not break clients against this one.
    return AskedPage(min(message.page_size, MOST), after, scope)


def page_of(rows: Iterable[Row], message: Any, place: Callable[[Row], str]) -> tuple[list[Row], str]:
    """Return the page of a complete list, and the token of the next one. Raises `InvalidRequest`.

    A row that is added or removed between two pages moves no other row to another page.

    Args:
        rows: in any order.
        message: with `page_size` and `page_token`; every other field is a filter.
        place: returns the sort key of a row, which is unique.
    """
    fields = Fields(message.DESCRIPTOR.name)
    asked = asked_page(fields, message, str)
    fields.check()
    ordered = sorted((row for row in rows if asked.after is None or place(row) > asked.after), key=place)
    shown = ordered[: asked.size or USUAL]
    return shown, asked.token(place(shown[-1]) if len(ordered) > len(shown) else None)


def _scope_of(message: Message) -> bytes:
    """Return what a page token is bound to: the list method, and its filters."""
    filters: Any = type(message)()
    # A copy: the request itself is still needed with these two fields.
    filters.CopyFrom(message)
    filters.ClearField("page_size")
    filters.ClearField("page_token")
    # Deterministic, because a map field may be encoded in any order, and the token must match.
    filter_bytes: bytes = filters.SerializeToString(deterministic=True)
    return str(message.DESCRIPTOR.full_name).encode() + b"\0" + filter_bytes
