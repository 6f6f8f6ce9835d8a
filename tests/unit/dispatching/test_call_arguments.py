"""What a model is told about arguments that cannot be used."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.call_arguments import LINE_AT_MOST, argument_problem, read_arguments
from sidecar.core.definitions.cards.ask_arguments import DEFAULT_ARGUMENTS, declared_arguments, undeclared_arguments
from sidecar.core.json_schemas import canonical_text

SECRET = "anna@example.org"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "request": {"type": "string", "maxLength": 9},
        "count": {"type": ["integer", "null"], "minimum": 1},
        "tier": {"enum": ["bronze", "gold"]},
        "days": {"type": "array", "items": {"type": "object", "properties": {"name": {"const": "Monday"}}}},
        "where": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "prices": {"type": "object", "additionalProperties": {"type": "integer"}},
        "box": {
            "type": "object",
            "properties": {"lid": {}, "side": {}},
            "required": ["lid"],
            "additionalProperties": False,
        },
    },
    "required": ["request"],
    "additionalProperties": False,
}
TEXT = canonical_text(SCHEMA)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "`request` is missing"),
        ({"request": 7}, "`request` must be of type string"),
        ({"request": "x" * 10}, "`request` must have at most 9 characters"),
        ({"request": "", "count": 0}, "`count` must be at least 1"),
        ({"request": "", "count": SECRET}, "`count` must be of type null or integer"),
        ({"request": "", "tier": SECRET}, '`tier` must be one of "bronze","gold"'),
        ({"request": "", "days": [{}, {"name": SECRET}]}, '`days[1].name` must be "Monday"'),
        ({"request": "", "where": SECRET}, "`where` must be of type integer or must be of type null"),
        ({"request": "", "box": {}}, "`box.lid` is missing"),
        ({"request": "", "box": {"lid": 1, SECRET: 2}}, "`box` may only hold lid, side"),
        ({"request": "", "prices": {SECRET: SECRET}}, "`prices.*` must be of type integer"),
        (
            {"request": "", SECRET: SECRET},
            "the arguments may only hold box, count, days, prices, request, tier, where",
        ),
    ],
)
def test_a_problem_names_path_rule_and_choices_and_nothing_of_the_caller(given: dict[str, Any], said: str) -> None:
    """Values and unknown names may hold what a user said: neither is repeated."""
    assert argument_problem(TEXT, given) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "the arguments must be a JSON object, and are not JSON"),
        ('"\ud800"', "the arguments must be a JSON object, and are not JSON"),
        ("[" * 5000, "the arguments must be a JSON object, and are not JSON"),
        ('["request"]', "the arguments must be a JSON object"),
        (" " * 65_537, "the arguments must have at most 65536 bytes"),
    ],
)
def test_what_is_no_object_is_said_to_be_none(text: str, said: str) -> None:
    """Not JSON, another kind of value, too long."""
    assert read_arguments(text, TEXT) == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(SECRET),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SCHEMA["properties"], SECRET]), inner)
    ),
    max_leaves=8,
)


@given(given=st.dictionaries(st.sampled_from([*SCHEMA["properties"], SECRET, "name", "lid"]), JSON))
def test_whatever_is_given_there_is_one_short_line_or_nothing(given: dict[str, Any]) -> None:
    """Never empty where something is wrong, never the caller's text, never a second line."""
    line = argument_problem(TEXT, given)

    assert SECRET not in line
    assert "\n" not in line
    assert len(line) <= LINE_AT_MOST + 1
    assert bool(line) == isinstance(read_arguments(canonical_text(given), TEXT), str)


def test_every_sub_agent_tool_takes_intent_count_and_prior_context() -> None:
    """A card's own schema is left as it is, beside what it lacks of the two; what it declares itself is its own."""
    own = {"type": "object", "properties": {"order": {"type": "string"}}, "additionalProperties": False}
    also = {"type": "object", "properties": {"prior_context": {"type": "array"}}}

    assert list(declared_arguments(own)["properties"]) == ["order", "intent_count", "prior_context"]
    assert declared_arguments(also)["properties"]["prior_context"] == {"type": "array"}
    assert {**declared_arguments(own), "properties": own["properties"]} == own
    assert undeclared_arguments(DEFAULT_ARGUMENTS) == ("prior_context",)
    assert undeclared_arguments(declared_arguments(DEFAULT_ARGUMENTS)) == ()
