"""A token of a page is good for one list with one set of filters."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.decoding import base64url, from_base64url
from sidecar.core.listing.page_tokens import LONGEST, PageTokenInvalid, page_token, place_of

SCOPES = st.binary(max_size=40)


class Place(NamedTuple):
    """Of a row."""

    at: int
    name: str


PLACES = st.builds(Place, st.integers(0, 2**50), st.text(max_size=40))


@given(SCOPES, PLACES)
def test_a_token_brings_back_its_place(scope: bytes, place: Place) -> None:
    """Made by any sidecar: there is no key."""
    assert place_of(page_token(scope, place), scope, Place) == place


@given(SCOPES, SCOPES, PLACES)
def test_a_token_of_other_filters_says_so(scope: bytes, other: bytes, place: Place) -> None:
    """And what to do."""
    if scope != other:
        with pytest.raises(PageTokenInvalid, match="other filters; send the filters of the first page"):
            place_of(page_token(scope, place), other, Place)


@given(SCOPES, PLACES, st.data())
def test_a_token_that_was_changed_is_none(scope: bytes, place: Place, data: st.DataObject) -> None:
    """In any bit."""
    said = bytearray(from_base64url(page_token(scope, place)))
    bit = data.draw(st.integers(0, len(said) * 8 - 1))
    said[bit // 8] ^= 1 << bit % 8
    with pytest.raises(PageTokenInvalid, match="leave it out for the first page"):
        place_of(base64url(bytes(said)), scope, Place)


@pytest.mark.parametrize("token", ["", "x", "\u00e4", "A" * (LONGEST + 1), "A" * LONGEST])
def test_what_is_no_token_is_refused(token: str) -> None:
    """However long it is."""
    with pytest.raises(PageTokenInvalid):
        place_of(token, b"", Place)
