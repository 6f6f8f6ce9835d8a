"""Component markers of the legacy path are taken out of texts by one code, for the backfill and for the SDK."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.dispatching.result_checks import holds_component_data
from subagents_legacy import Damage, Marker, split_markers
from tests.support.requirement import requirement

PIECES = st.one_of(
    st.sampled_from(["<component", "<component>", '<component type="x">', "</component>", "```json", "```", "{", "]"]),
    st.sampled_from(['{"a": [1]}', "[]", "\n\n", " ", "Hello", "<", "/>", "{bad", '"']),
)


@requirement("PC1-D-50")
def test_markers_become_components_and_the_text_keeps_the_words() -> None:
    """Two markers; the second holds what looks like its own end."""
    tricky = '{"html": "</component>", "id": 7}'
    offer = '<component type="offer">{"id": "o-1"}</component>'
    text = f"Look:\n\n{offer}\n\nOr <component type='card'> {tricky} </component>this."

    split = split_markers(text)

    assert split.narration == "Look:\n\nOr this."
    assert [(each.type, each.data_json) for each in split.markers] == [("offer", '{"id": "o-1"}'), ("card", tricky)]
    assert [text[each.offset :].startswith("<component") for each in split.markers] == [True, True]
    assert not split.defects


@pytest.mark.parametrize(
    ("damage", "bad", "after"),
    [
        (Damage.JSON, '<component type="offer">{not json</component>', " after"),
        (Damage.JSON, '<component type="offer"/>', " after"),
        (Damage.JSON, '<component type="offer">{"cut": "off', ""),
        (Damage.JSON, '<component type="offer">{"n": NaN}</component>', " after"),
        (Damage.UNCLOSED, '<component type="offer">{"id": 1}', " after"),
        (Damage.TYPE, '<component kind="offer">{"id": 1}</component>', " after"),
        (Damage.TAG, "</component>", " after"),
        (Damage.TAG, "<component type", ""),
        (Damage.BLOCK, '```json\n{"id": 1}\n```', " after"),
    ],
)
def test_what_is_damaged_is_left_out_and_told_with_its_place(damage: Damage, bad: str, after: str) -> None:
    """Nothing of it stays in the narration, and nothing else goes."""
    split = split_markers(f"Before {bad}{after}")

    assert split.narration == f"Before {after}".strip()
    assert [(each.damage, each.offset, each.length) for each in split.defects] == [(damage, 7, len(bad))]
    assert not split.markers


def test_a_text_without_markers_is_left_as_it_is() -> None:
    """White space included; a body of nothing but JSON is no narration."""
    text = "  One < two,\n\n\n\n{braces} and `code` stay. "
    assert split_markers(text).narration == text
    assert split_markers('{"id": 1}').narration == ""
    assert [each.damage for each in split_markers('{"id": 1}').defects] == [Damage.BODY]


@given(st.lists(PIECES, max_size=12).map("".join))
def test_whatever_is_given_the_narration_holds_no_component_data(text: str) -> None:
    """And every component is JSON that stood in the text where its marker says."""
    split = split_markers(text)

    assert not holds_component_data(split.narration)
    for marker in split.markers:
        assert isinstance(marker, Marker)
        assert isinstance(json.loads(marker.data_json), dict | list)
        assert marker.data_json in text[marker.offset :]
